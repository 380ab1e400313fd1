"""Measures of the source: folders of a peer, assignments between its components, lines, prose."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[3]
PEER: Final = ROOT / "p2prdf/peer"
PRODUCT: Final = ("p2prdf", "node", "cli")
WORDS_MIN: Final = 100
"""Files with at least so many words of docstrings and comments count."""
HEADS_MAX: Final = 3.0
"""Most free relatives (matches of ``_HEAD``) per 1,000 words."""

_HEAD: Final = re.compile(r"\b(?:who(?:ever|m|mever|se)?|what(?:ever)?)\b", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Za-z']+")
_CODE: Final = re.compile(r"^ *```.*?^ *```|`[^`]*`", re.MULTILINE | re.DOTALL)


def sources(*folders: str) -> Iterator[Path]:
    """Return the Python files of folders of the repository, in order."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not {".venv", "build", "__pycache__"} & set(path.parts):
                yield path


def rooms() -> list[str]:
    """Return the packages and modules on the first level of a peer."""
    return sorted(path.stem for path in PEER.iterdir() if path.stem not in ("__init__", "__pycache__"))


def floors() -> list[str]:
    """Return the layers of a peer, as the import contract has them, from the top to the bottom."""
    contract = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'containers = \["p2prdf\.peer"\]\nexhaustive = true\nlayers = \[(.*?)\]', contract, re.DOTALL)
    assert found is not None, "pyproject.toml has no exhaustive import contract of p2prdf.peer"
    return re.findall(r'"([^"]+)"', found[1])


def late_wires() -> list[str]:
    """Return the assignments by which a constructor in p2prdf/peer sets an attribute of another component."""
    found = []
    for path in sources("p2prdf/peer"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                found += [f"{path.relative_to(ROOT)}:{line} {text}" for line, text in foreign_assignments(node)]
    return found


def foreign_assignments(constructor: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    parameters = {each.arg for each in (*constructor.args.args, *constructor.args.kwonlyargs)} - {"self"}
    for node in ast.walk(constructor):
        targets = node.targets if isinstance(node, ast.Assign) else []
        for target in targets:
            for each in target.elts if isinstance(target, ast.Tuple) else [target]:
                if not isinstance(each, ast.Attribute):
                    continue
                owner = each.value
                if isinstance(owner, ast.Attribute) or (isinstance(owner, ast.Name) and owner.id in parameters):
                    yield node.lineno, ast.unparse(each)


def uses(name: str) -> list[str]:
    """Return the places in p2prdf/peer that read an attribute of a name."""
    found = []
    for path in sources("p2prdf/peer"):
        found += [
            f"{path.relative_to(ROOT)}:{node.lineno}"
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load)
        ]
    return found


def lines(*folders: str) -> int:
    """Return the lines of the Python files of folders."""
    return sum(path.read_text().count("\n") for path in sources(*folders))


def prose(path: Path) -> tuple[str, int]:
    """Return the prose of a file and how many fragments it has.

    The prose of Python is its docstrings and comments, that of Markdown all text outside of code.  A fragment
    is a docstring of an attribute that begins in lower case or does not end a sentence.
    """
    source = path.read_text()
    if path.suffix == ".md":
        return _CODE.sub("", source), 0
    texts, fragments = [], 0
    for node in ast.walk(ast.parse(source)):
        if _is_text(node):
            texts.append(node.value.value)  # type: ignore[attr-defined]
        body = getattr(node, "body", None)
        for first, second in pairwise(body if isinstance(body, list) else []):
            if isinstance(first, ast.Assign | ast.AnnAssign) and _is_text(second):
                text = second.value.value.strip()  # type: ignore[attr-defined]
                fragments += bool(text) and (text[0].islower() or text[-1] not in '.)!?"`:')
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    texts += [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join(texts), fragments


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def heads(text: str) -> tuple[float, int]:
    """Return the free relatives in 1,000 words of a text, and its words."""
    words = len(_WORD.findall(text))
    return 1000 * len(_HEAD.findall(text)) / max(1, words), words


def documents() -> Iterator[Path]:
    """Return all files with prose that a rule holds for."""
    yield from sources("p2prdf", "node", "cli", "lab", "tests")
    yield from (path for path in sorted((ROOT / "docs").rglob("*.md")) if "history" not in path.parts)
    yield ROOT / "README.md"


def glossary() -> int:
    """Return the entries of the glossary."""
    table = (ROOT / "docs/glossary.md").read_text().splitlines()
    return sum(line.startswith("| ") for line in table) - 1
