"""Faults reported by users: a folder for each, beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest
import real_data


def field_case(name: str) -> Path:
    """Return the folder of a reported fault.  The test is skipped where the folder is not beside the repository."""
    folder = real_data.DATA / "field-cases" / name
    if not folder.is_dir():
        pytest.skip(f"the reported case {name} is not beside the repository (../shared/data/field-cases)")
    return folder
