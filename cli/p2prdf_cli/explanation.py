"""Explanations of queries for people: facts, operators as a tree, a table of steps per part, findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from p2prdf_cli.render import printable, short_term, time_text
from p2prdf_cli.terminal import table

__all__ = ["show"]

Told = Mapping[str, Any]

_IRI: Final = re.compile(r"<[^<>\s]*>")
_TYPE: Final = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_NODES_MAX: Final = 3


def show(explanation: Told, prefixes: Mapping[str, str], console: Console) -> None:
    """Write an explanation, with IRIs shortened by the prefixes."""

    def text(value: str) -> str:
        return printable(_IRI.sub(lambda found: "a" if found[0] == _TYPE else short_term(found[0], prefixes), value))

    console.print(Text(_title(explanation), style="bold"))
    for fact in _facts(explanation):
        console.print(Text(printable(fact)))
    console.print()
    if explanation.get("operators"):
        console.print(_tree(explanation["operators"], text))
        console.print()
    for number, part in enumerate(explanation["parts"], 1):
        console.print(_steps(number, part, alone=len(explanation["parts"]) == 1, text=text))
    for remark in _remarks(explanation):
        console.print(Text(remark, style="dim"))
    for finding in explanation["findings"]:
        console.print(Text(f"→ {text(finding)}"))


def _title(told: Told) -> str:
    names = " ".join(f"?{name}" for name in told["names"])
    kinds = f"{told['form'].upper()}, {told['algorithm']}{', per event' if told['per_event'] else ''}"
    what = f"Subscription {told['subscription']['number']}" if "subscription" in told else "Query"
    return printable(f"{what} ({kinds}){': ' if names else ''}{names}")


def _facts(told: Told) -> Iterator[str]:
    is_would_be = "is" if "subscription" in told else "would be"
    yield f"coordinator {is_would_be} {', '.join(told['home']['nodes'])} (key {told['home']['key']})"
    subscription = told.get("subscription")
    if subscription is None:
        return
    gone = "" if subscription["reached"] else ", which is gone"
    yield f"since {time_text(subscription['since'])}, delivered to {subscription['subscriber']}{gone}"
    left, whole = subscription["lease_left_seconds"], subscription["lease_seconds"]
    yield f"lease {whole:,.0f} s, {left:,.0f} s left unless it is renewed"
    answers = f"{subscription['answers']:,} solutions and retractions"
    answers += f", {subscription['unacknowledged']:,} unacknowledged"
    if subscription["dropped"]:
        answers += f", {subscription['dropped']:,} dropped"
    if subscription["true"] is not None:
        answers += f"; {subscription['true']:,} are current"
    yield answers
    reports = subscription.get("reports")
    if reports is not None and reports["watermark"] is not None:
        last = "none" if reports["last"] is None else time_text(reports["last"])
        yield f"last report {last}, watermark {time_text(reports['watermark'])}, {reports['late']:,} solutions late"
        if reports.get("begins") is not None:
            yield f"first report {time_text(reports['begins'])}: elements of earlier ones are forgotten"


# --- operators -----------------------------------------------------------------------------------


def _tree(operators: Sequence[Told], text: Any) -> Tree:
    """Return the operators from the root down; an operator with several readers is printed in full once."""
    shown: set[int] = set()

    def label(operator: Told, *, again: bool) -> Text:
        rows = operator.get("rows", 0)
        held = f"  {rows:,} {'row' if rows == 1 else 'rows'} held" if rows else ""
        said = f"{operator['operator']} {text(operator['detail'])}".rstrip()
        return Text(said + held + (" (as above)" if again else ""))

    tree = Tree(label(operators[-1], again=False), guide_style="dim")
    todo = [(tree, operators[-1])]
    while todo:
        branch, operator = todo.pop()
        shown.add(operator["number"])
        for number in operator["inputs"]:
            again = number in shown
            below = branch.add(label(operators[number], again=again))
            if not again:
                todo.append((below, operators[number]))
    return tree


# --- steps ---------------------------------------------------------------------------------------


def _steps(number: int, part: Told, *, alone: bool, text: Any) -> Any:
    """Return a part's steps in order of evaluation, one per row."""
    standing = "answers" in part
    columns = ["pattern", "", "rate", "triples", *(["since", "waiting"] if standing else []), "where"]
    rows: list[list[object]] = []
    for step in part["steps"]:
        spelled = [step["text"], *(f"filter {each}" for each in step["filters"])]
        about = step["triples_estimated"]
        row: list[object] = [
            step["pattern"],
            "\n".join(map(text, spelled)),
            _rate(step),
            _count(step["triples"], about=about),
        ]
        if standing:
            row.append(_count(step["triples_since"], about=about))
            row.append(_count(step["waiting"], about=step["waiting_estimated"]))
        rows.append([*row, _where(step)])
    if standing:
        rows.append(["", "solutions", "", "", "", part["answers"], ""])
    return table("Steps, in order" if alone else f"Part {number}: steps, in order", columns, rows)


def _rate(step: Told) -> object:
    """Return the rate counted when the order was chosen, or in brackets the assumed one."""
    if step["rate"] is None and step["expected"] is not None:
        return f"({step['expected']:,.0f})"
    return _count(step["rate"])


def _count(number: int | None, *, about: bool = False) -> object:
    if number is None:
        return "-"
    return f"~{number:,}" if about else number


def _where(step: Told) -> str:
    if step["varies_with"]:
        return f"{step['role']}, by the values of {' '.join(f'?{name}' for name in step['varies_with'])}"
    more = f" and {len(step['nodes']) - _NODES_MAX} more" if len(step["nodes"]) > _NODES_MAX else ""
    key = step["keys"][0] if len(step["keys"]) == 1 else f"{len(step['keys'])} keys"
    return printable(f"{step['role']} {key} at {', '.join(step['nodes'][:_NODES_MAX])}{more}")


def _remarks(told: Told) -> Iterator[str]:
    asked = told["asked"]
    yield f"{asked['nodes'] - asked['missing_total']:,} of {asked['nodes']:,} nodes counted"
    if told["steps_left_out"]:
        yield f"{told['steps_left_out']:,} more steps are omitted"
