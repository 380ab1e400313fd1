"""Pages of docs/reference that are made from the code: ``python -m reference_pages`` (``make docs``)."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import typer

from p2prdf import errors
from p2prdf.channel_workers.worker_metrics import METRICS as OF_CHANNELS
from p2prdf.errors import P2PRDFError
from p2prdf.gateway.metrics import METRICS as OF_NODES
from p2prdf.gateway.problems import described
from p2prdf.monitoring.exposition import Metric
from p2prdf.replica.worker_metrics import METRICS as OF_INTERESTS
from p2prdf_cli import exits
from p2prdf_cli.app import app
from p2prdf_cli.exits import ExitCode, complain
from p2prdf_node.config import SETTINGS

__all__ = ["FOLDER", "PAGES", "main"]

FOLDER: Final = Path(__file__).parents[2] / "docs/reference"
_NOTE: Final = "This page is made from the code by `make docs`.\n"

_REMEDIES: Final = {
    "stamp-refused": "Compare the clocks of client and nodes; set the wrong one and restart its process.",
    "error": "Read the message: it names the input and the reason.",
    "local-protocol": "Correct the call, the option or the setting that the message names.",
    "query-refused": "Correct the query at the line and column of the message.",
    "data-refused": "Correct the line that the message names; without `--strict` it is skipped.",
    "interest-overflow": "Narrow the interest, or raise its bound.",
    "late-element": "Publish in the order of event times, or give a larger `--lateness`.",
    "not-allowed": "Ask the operator for the permission, or use the certificate of another client.",
    "subscription-gone": "Subscribe again; give a longer lease, or `--name`.",
    "transaction-too-large": "Divide the transaction, or publish in batches, which have a stamp each.",
    "changed-meanwhile": "Read the subject again, decide anew, and repeat with the stamp of that read.",
    "target-moved": "Compare the target and repair it: `p2prdf replica verify`, `repair`.",
    "target-refused": "Add the host to `--allow-host`, or correct its credentials.",
    "token-refused": "Subscribe again without the token.",
    "token-mismatch": "Send the token with the query that it was made for.",
    "false-digest": "Find the sender in the node's log and expel it: docs/explanation/security.md, A bad member.",
    "remote-protocol": "Compare the versions of both sides; report it if they are equal.",
    "busy": "Call again after `retry_after` seconds.",
    "unavailable": "Start the node, correct its address, or name several nodes with `--peer`.",
    "leaving": "Connect to another node; clients with several addresses do so by themselves.",
    "clusters-merging": "Ask again when `merging` is null in the status of all nodes.",
    "tls-refused": "Correct the certificates that the message names.",
}


def kinds() -> list[type[P2PRDFError]]:
    """Return all exceptions, each once, in the order of the module."""
    found = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, P2PRDFError)]
    return list(dict.fromkeys(found))


def _sample(kind: type[P2PRDFError]) -> P2PRDFError:
    if kind in (errors.LateElement, errors.ChangedMeanwhile):
        return kind("<urn:s>", 1, 2)
    return kind("sample")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in lines)


def errors_page(silent: Callable[[P2PRDFError], int] = complain) -> str:
    """Return the page of all exceptions."""
    rows = []
    for kind in kinds():
        error = _sample(kind)
        meaning = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].replace("``", "`").split())
        cells = (f"`{kind.code}`", f"`{kind.__name__}`", str(int(described(error)[0])), str(int(silent(error))))
        rows.append((*cells, meaning, _REMEDIES[kind.code]))
    return (
        f"# Errors\n\n{_NOTE}\nAll exceptions are in `p2prdf.errors`. The code stands in the line that a command"
        "\nwrites, in JSON output, and in the body of an HTTP answer.\n\n"
        + _table(("Code", "Exception", "HTTP", "Exit code", "Meaning", "Remedy"), rows)
    )


def _texts(module: Any, name: str) -> dict[str, str]:
    """Return the docstrings below the fields of a class."""
    (found,) = (each for each in ast.parse(inspect.getsource(module)).body
                if isinstance(each, ast.ClassDef) and each.name == name)  # fmt: skip
    texts = {}
    for field, text in zip(found.body, found.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign | ast.Assign) or not isinstance(text, ast.Expr):
            continue
        target = field.target if isinstance(field, ast.AnnAssign) else field.targets[0]
        assert isinstance(text.value, ast.Constant)
        assert isinstance(target, ast.Name)
        texts[target.id] = " ".join(str(text.value.value).replace("``", "`").split())
    return texts


def settings_page() -> str:
    """Return the page of a node's settings."""
    rows = []
    for name, declared in SETTINGS.items():
        default = declared.default
        shown = "none" if default in (None, "", ()) else "no limit" if default == math.inf else str(default)
        option = f"`--{name.replace('_', '-')}`" * declared.on_command_line
        rows.append((f"`{name}`", option, declared.values, shown, declared.help))
    return (
        f"# Settings of a node\n\n{_NOTE}\n"
        "A setting comes from the option, else from the environment, else from the TOML file of\n"
        "`--config`, else it has its default. Its environment variable is `P2PRDF_` and its name in\n"
        "capitals; lists are separated by commas. Unknown names in the file are refused. Numbers are\n"
        "below 10^12. The cluster secret comes from `secret_file` or `P2PRDF_SECRET`.\n\n"
        + _table(("Setting", "Option", "Values", "Default", "Meaning"), rows)
    )


def metrics_page() -> str:
    """Return the page of all metrics."""
    head = (
        f"# Metrics\n\n{_NOTE}\nEach process answers `/metrics` in Prometheus' text format 0.0.4. Counters begin at 0"
        "\nwhen the process starts. Histograms have `_bucket{le}`, `_sum` and `_count`.\n"
    )
    parts = [head]
    tables: tuple[tuple[str, tuple[Metric, ...]], ...] = (
        ("Nodes, at their gateways", OF_NODES),
        ("`p2prdf serve interests`", OF_INTERESTS),
        ("`p2prdf serve channels`", OF_CHANNELS),
    )
    for title, metrics in tables:
        rows = [
            (f"`{each.name}`", each.kind, ", ".join(each.labels), each.text + (f" Only of {each.of}." * bool(each.of)))
            for each in metrics
        ]
        parts.append(f"\n## {title}\n\n" + _table(("Metric", "Type", "Labels", "Meaning"), rows))
    own = (
        ("`p2prdf_gateway_subscribers`", "gauge", "", "Event streams and WebSockets that are open."),
        ("`p2prdf_gateway_requests_total`", "counter", "path, status", "Requests answered, by path and status."),
        ("`p2prdf_gateway_webhooks`", "gauge", "state", "Webhooks that this gateway delivers, by state."),
        ("`p2prdf_gateway_webhook_requests_total`", "counter", "outcome", "Requests to receivers, by outcome."),
    )
    parts.append("\n## The gateway\n\n" + _table(("Metric", "Type", "Labels", "Meaning"), own))
    return "".join(parts)


_BLOCK: Final = re.compile(r"<!-- made from the code: (.+?) -->\n.*?<!-- end -->", re.DOTALL)
_OF_COMMANDS: Final = ("p2prdf", "exit codes")
"""Blocks of the page of commands that belong to no single command."""


def _commands(command: Any, path: str = "") -> dict[str, Any]:
    """Return all commands that are no groups, by their names without ``p2prdf``."""
    if not hasattr(command, "list_commands"):
        return {path: command}
    found = {}
    for name in command.list_commands(None):
        found |= _commands(command.get_command(None, name), f"{path} {name}".strip())
    return found


def _without_default(text: str) -> tuple[str, str]:
    """Return the text of an option and the default that it names."""
    found = re.fullmatch(r"(.*?)\s*\(default: (.+)\)", text.strip())
    return (found[1], found[2]) if found else (text, "")


def _argument(parameter: Any) -> str:
    text = (parameter.metavar or parameter.name.upper()).strip("[]")
    return text if parameter.required else f"[{text}]"


def _option(option: Any) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for name in option.opts)
    kind = option.type_descriptor.annotation
    metavar = option.metavar
    if metavar is None and not option.is_flag:
        metavar = "|".join(kind) if inspect.isclass(kind) and hasattr(kind, "__members__") else "N"
    text, named = _without_default(option.help)
    default = option.default
    if isinstance(default, list | tuple):
        default = ", ".join(map(str, default))
    told = named or ("" if default is None or default is False else f"`{default:g}`"
                     if isinstance(default, float) else f"`{default}`" * bool(str(default)))  # fmt: skip
    environment = f"`{option.envvar}`" if option.envvar else ""
    told = "required" if option.required else ", else ".join(filter(None, (environment, told)))
    return f"{names} {metavar or ''}".strip(), told, text.replace("<", "\\<")


def _reference(paths: list[str], found: dict[str, Any]) -> str:
    """Return purpose, synopsis, examples and options of a command; or of several commands with equal options."""
    first = found[paths[0]]
    lines: list[str] = []
    examples: list[str] = []
    for path in paths:
        about, _, shown = (inspect.cleandoc(found[path].help).replace("\b", "")).partition("Examples:\n")
        arguments = [_argument(each) for each in found[path].params if each.param_type_name == "argument"]
        lines.append(" ".join(["p2prdf", path, "[OPTIONS]", *arguments]))
        examples += [line.removeprefix("  ") for line in shown.strip("\n").splitlines()][: 4 if paths[1:] else None]
        if not paths[1:]:
            about = " ".join(about.split("\n\n")[0].split())
    text = "" if paths[1:] else about.replace("<", "\\<") + "\n\n"
    text += "```text\n" + "".join(f"{line}\n" for line in lines) + "```\n\n"
    text += "```\n" + "".join(f"{line}\n" for line in examples) + "```\n\n"
    arguments = [(f"`{_argument(each)}`", "", each.help) for each in first.params if each.param_type_name == "argument"]
    rows, panel = list(arguments), None
    for option in first.params:
        if option.param_type_name != "option" or option.hidden:
            continue
        if option.rich_help_panel != panel:
            panel = option.rich_help_panel
            rows.append((f"**{panel}**", "", ""))
        name, told, about = _option(option)
        others = {_option(each)[1] for path in paths for each in found[path].params if each.opts == option.opts}
        rows.append((name, told if len(others) == 1 else "by command", about))
    return text + _table(("Option", "Default", "Meaning"), rows)


def commands_page() -> str:
    """Return the page of commands: generated parts between texts written by hand."""
    root: Any = typer.main.get_command(app)
    found = _commands(root)
    page = (FOLDER / "cli.md").read_text("utf-8")
    blocks = [" ".join(names.split()) for names in _BLOCK.findall(page)]
    named = [name for names in blocks if names not in _OF_COMMANDS for name in names.split(", ")]
    missing, extra = set(found) - set(named), set(named) - set(found)
    assert not missing, f"docs/reference/cli.md has no block of {sorted(missing)}"
    assert not extra, f"docs/reference/cli.md has blocks of no commands: {sorted(extra)}"

    def made(block: re.Match[str]) -> str:
        names = " ".join(block[1].split())
        if names == "p2prdf":
            rows = [_option(each) for each in root.params if each.param_type_name == "option"]
            text = _table(("Option", "Default", "Meaning"), rows)
        elif names == "exit codes":
            texts = _texts(exits, "ExitCode")
            text = _table(("Code", "Meaning"), ((str(each.value), texts[each.name]) for each in ExitCode))
        else:
            text = _reference(names.split(", "), found)
        return f"<!-- made from the code: {block[1]} -->\n\n{text}\n<!-- end -->"

    return _BLOCK.sub(made, page)


PAGES: Final[dict[str, Callable[[], str]]] = {
    "errors.md": errors_page, "settings.md": settings_page, "metrics.md": metrics_page,
    "cli.md": commands_page,
}  # fmt: skip


def main() -> None:
    """Write the pages."""
    for name, made in PAGES.items():
        with contextlib.redirect_stderr(io.StringIO()):  # the sample of each error
            text = made()
        (FOLDER / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
