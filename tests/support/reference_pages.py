"""Pages of docs/reference that are made from the code: ``python -m reference_pages`` (``make docs``)."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import typer

from p2prdf import errors
from p2prdf.errors import P2PRDFError
from p2prdf.gateway.metrics import METRICS as OF_NODES
from p2prdf.gateway.problems import described
from p2prdf.hosting.host_metrics import METRICS as OF_CHANNELS
from p2prdf.monitoring.exposition import Metric
from p2prdf.replica.keeper_metrics import METRICS as OF_INTERESTS
from p2prdf_cli.app import app
from p2prdf_cli.exits import complain
from p2prdf_node import config
from p2prdf_node.config import NodeConfig

__all__ = ["FOLDER", "PAGES", "main"]

FOLDER: Final = Path(__file__).parents[2] / "docs/reference"
_NOTE: Final = "This page is made from the code by `make docs`.\n"

_REMEDIES: Final = {
    "error": "Read the message: it names the input and the reason.",
    "local-protocol": "Correct the call, the option or the setting that the message names.",
    "query-refused": "Correct the query at the line and column of the message.",
    "data-refused": "Correct the line that the message names; without `--strict` it is skipped.",
    "interest-overflow": "Narrow the interest, or raise its bound.",
    "late-element": "Publish in the order of event times, or give a larger `--lateness`.",
    "not-allowed": "Ask the operator for the permission, or use the certificate of another client.",
    "subscription-gone": "Subscribe again; give a longer lease, or `--name`.",
    "target-moved": "Compare the target and repair it: `p2prdf replica verify`, `repair`.",
    "target-refused": "Add the host to `--allow-host`, or correct its credentials.",
    "token-refused": "Subscribe again without the token.",
    "token-mismatch": "Send the token with the query that it was made for.",
    "remote-protocol": "Compare the versions of both sides; report it if they are equal.",
    "busy": "Call again after `retry_after` seconds.",
    "unavailable": "Start the node, correct its address, or name several nodes with `--peer`.",
    "leaving": "Connect to another node; clients with several addresses do so by themselves.",
    "tls-refused": "Correct the certificates that the message names.",
}


def kinds() -> list[type[P2PRDFError]]:
    """Return all exceptions, each once, in the order of the module."""
    found = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, P2PRDFError)]
    return list(dict.fromkeys(found))


def _sample(kind: type[P2PRDFError]) -> P2PRDFError:
    return errors.LateElement("<urn:s>", 1, 2) if kind is errors.LateElement else kind("sample")


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


def _texts() -> dict[str, str]:
    """Return the texts below the fields of NodeConfig."""
    (found,) = (each for each in ast.parse(inspect.getsource(config)).body
                if isinstance(each, ast.ClassDef) and each.name == "NodeConfig")  # fmt: skip
    texts = {}
    for field, text in zip(found.body, found.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            assert isinstance(text.value, ast.Constant)
            texts[field.target.id] = " ".join(str(text.value.value).replace("``", "`").split())
    return texts


def settings_page() -> str:
    """Return the page of a node's settings."""
    root: Any = typer.main.get_command(app)
    node = root.get_command(None, "node")
    options = {name: each for each in node.params for name in each.opts}
    texts = _texts()
    rows = []
    for field in dataclasses.fields(NodeConfig):
        if field.name == "secret":
            continue
        option = f"--{field.name.replace('_', '-')}"
        default = field.default
        shown = "none" if default in (None, "", ()) else "no limit" if default == math.inf else str(default)
        text = texts.get(field.name) or getattr(options.get(option), "help", "") or ""
        rows.append((f"`{field.name}`", f"`{option}`" if option in options else "", shown, text))
    return (
        f"# Settings of a node\n\n{_NOTE}\n"
        "A setting comes from the option, else from the environment, else from the TOML file of\n"
        "`--config`, else it has its default. Its environment variable is `P2PRDF_` and its name in\n"
        "capitals; lists are separated by commas. Unknown names in the file are refused. Numbers are\n"
        "positive and below 10^12. The cluster secret comes from `secret_file` or `P2PRDF_SECRET`.\n\n"
        + _table(("Setting", "Option", "Default", "Meaning"), rows)
    )


def metrics_page() -> str:
    """Return the page of all metrics."""
    head = (
        f"# Metrics\n\n{_NOTE}\nEach process answers `/metrics` in Prometheus' text format 0.0.4. Counters begin at 0"
        "\nwhen the process starts. Histograms have `_bucket{le}`, `_sum` and `_count`.\n"
    )
    parts = [head]
    tables: tuple[tuple[str, tuple[Metric, ...]], ...] = (
        ("Nodes, told by the gateway", OF_NODES),
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


PAGES: Final[dict[str, Callable[[], str]]] = {
    "errors.md": errors_page, "settings.md": settings_page, "metrics.md": metrics_page,
}  # fmt: skip


def main() -> None:
    """Write the pages."""
    for name, made in PAGES.items():
        (FOLDER / name).write_text(made(), "utf-8")


if __name__ == "__main__":
    main()
