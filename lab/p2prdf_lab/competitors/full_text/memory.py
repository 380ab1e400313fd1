"""The memory of a data structure: all objects that can be reached from it, each once."""

from __future__ import annotations

import gc
import sys
import types
from typing import Final

__all__ = ["held_bytes"]

_SHARED: Final = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
"""Types of code objects, which exist without the structure."""


def held_bytes(root: object) -> int:
    """Return the bytes of an object and of all objects reachable from it.

    Small integers and names that the interpreter shares are included, some hundred bytes in all.
    """
    seen = {id(root)}
    waiting, total = [root], 0
    while waiting:
        each = waiting.pop()
        total += sys.getsizeof(each)
        for other in gc.get_referents(each):
            if id(other) not in seen and not isinstance(other, _SHARED):
                seen.add(id(other))
                waiting.append(other)
    return total
