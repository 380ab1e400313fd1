"""The entries of every collection that is reachable from an object, counted by path."""

from __future__ import annotations

import enum
import types
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["entries", "grown"]

_LEAVES = (
    str, bytes, int, float, complex, bool, type(None), enum.Enum, np.generic, np.ndarray, type, types.ModuleType,
    types.BuiltinFunctionType, types.CodeType,
)  # fmt: skip


def entries(root: object, *, without: Iterable[object] = ()) -> Counter[str]:
    """Return the number of entries of all collections reachable from an object, by path.

    A path names attributes; ``[]`` stands for any element of a collection, ``{}`` for any key.  Collections on the
    same path are added up.  An object with several paths counts on the shortest.  ``without``: objects that are not
    entered.
    """
    found: Counter[str] = Counter()
    kept = list(without)  # an identity must not be used again meanwhile
    seen = set(map(id, kept))
    queue: deque[tuple[Any, str]] = deque([(root, type(root).__name__)])
    while queue:
        each, path = queue.popleft()
        if isinstance(each, _LEAVES) or id(each) in seen:
            continue
        seen.add(id(each))
        kept.append(each)
        if isinstance(each, (Mapping, list, set, frozenset, deque)) or _is_column(each):
            found[path] += len(each)
        queue.extend((part, path + step) for part, step in _parts(each))
    return found


def _is_column(each: Any) -> bool:
    return hasattr(type(each), "__len__") and isinstance(getattr(each, "values", None), np.ndarray)


def _parts(each: Any) -> Iterator[tuple[Any, str]]:
    """Yield the objects that an object refers to, and the step that leads there."""
    if isinstance(each, Mapping):
        for key, value in list(each.items()):
            yield key, "{}"
            yield value, "[]"
    elif isinstance(each, (list, tuple, set, frozenset, deque)):
        for part in list(each):
            yield part, "[]"
    elif isinstance(each, types.MethodType):
        yield each.__self__, ".<self>"
    elif isinstance(each, types.FunctionType):
        for cell in each.__closure__ or ():
            yield cell.cell_contents, ".<cell>"
    else:
        slots = [kind.__dict__.get("__slots__", ()) for kind in type(each).__mro__]
        names = [name for some in slots for name in ((some,) if isinstance(some, str) else some)]
        for name in dict.fromkeys([*names, *getattr(each, "__dict__", {})]):
            if hasattr(each, name):
                yield object.__getattribute__(each, name), f".{name}"


def grown(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """Return the paths with more entries than before, and how many more, most first."""
    more = {path: count - before[path] for path, count in after.items() if count > before[path]}
    return dict(sorted(more.items(), key=lambda each: (-each[1], each[0])))
