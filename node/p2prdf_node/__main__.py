"""``python -m p2prdf_node``: run one node.  Every setting of NodeConfig is an option."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p2prdf.errors import LocalProtocolError
from p2prdf_node.config import RENAMED, SETTINGS, load_config
from p2prdf_node.daemon import run

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a node with the settings of the command line, environment and file; return the exit code."""
    parser = argparse.ArgumentParser("p2prdf_node", description="Run one p2prdf node.", allow_abbrev=False)
    parser.add_argument("--config", type=Path, help="TOML file with settings")
    for name, declared in SETTINGS.items():
        flag: dict[str, Any] = {"nargs": "?", "const": True} if declared.type == "bool" else {}
        parser.add_argument("--" + name.replace("_", "-"), metavar="VALUE", help=declared.help, **flag)
    for name in RENAMED:  # refused with the new name
        parser.add_argument("--" + name.replace("_", "-"), default=None, help=argparse.SUPPRESS)
    options = vars(parser.parse_args(arguments))
    file = options.pop("config") or os.environ.get("P2PRDF_CONFIG") or None
    try:
        config = load_config(options, file=Path(file) if file else None, environment=os.environ)
        return run(config)
    except LocalProtocolError as error:
        print(f"p2prdf_node: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
