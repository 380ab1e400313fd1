"""Entry point of the ``p2prdf`` command and of ``python -m p2prdf_cli``."""

from __future__ import annotations

from p2prdf_cli.app import app

__all__ = ["main"]


def main() -> None:
    """Run the command line."""
    app(prog_name="p2prdf")


if __name__ == "__main__":
    main()
