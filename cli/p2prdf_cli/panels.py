"""Panels of the help texts: commands and options by panel, everyday ones first."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["COMMANDS", "OPTIONS", "OPTIONS_MAX", "put_into_panel", "set_panels"]

COMMANDS: Final = {
    "Everyday": {
        "node": "Run a node.",
        "publish": "Publish RDF files or streams, or delete their triples.",
        "subscribe": "Subscribe to a query and write its solutions.",
        "unsubscribe": "End a subscription.",
        "query": "Answer a query once.",
        "update": "Insert and delete triples by SPARQL Update.",
        "backup": "Copy the data directory of a node while it runs.",
        "export": "Write all statements as of one moment to a file.",
        "status": "Show the state of nodes.",
    },
    "Services and registrations": {
        "serve": "Run the HTTP gateway, or a worker for interests or channels.",
        "mcp": "Serve tools for language models (MCP).",
        "derive": "Keep a graph derived by a query or by rules.",
        "replica": "Keep a part of a dataset in a store or SPARQL endpoint.",
        "changesets": "Compare dumps; publish changesets of a dataset.",
        "spark-publish": "Publish RDF with Apache Spark.",
        "ca": "Issue and revoke certificates.",
        "member": "Expel a member and undo its lies.",
        "rules": "Add, list and remove named rules.",
        "interest": "Add, list and remove interests in datasets.",
        "channel": "Add, list and remove channels; publish and subscribe there.",
    },
    "Diagnostics and experiments": {
        "explain": "Explain how a query is evaluated.",
        "trace": "Show the trees of traced publications.",
        "corpus": "Count word frequencies for similarity conditions.",
        "demo": "Start a small cluster on this machine and check its solutions.",
        "simulate": "Run queries over data in a simulated cluster.",
        "experiment": "Repeat the published experiments; plan capacity.",
    },
}
"""Commands by panel, in the order of the help, with their short texts."""

OPTIONS_MAX: Final = 10
"""Most options of a command without panels."""

OPTIONS: Final = {
    "Cluster": (
        "--replicas", "--copies-min", "--durability", "--ordinal", "--advertise", "--zone", "--overlay",
        "--membership", "--indexes", "--places",
    ),
    "Security": (
        "--secret-file", "--seal-keys", "--permissions", "--tls-cert", "--tls-key", "--tls-ca", "--tls-crl", "--tokens",
        "--auth-file", "--allow-origin", "--allow-host", "--allow-private", "--allow-http",
    ),
    "Streams": ("--stream", "--timed", "--time", "--lateness", "--pace", "--upto", "--checkpoint", "--once"),
    "Durable subscriptions": ("--name", "--renew", "--lease", "--keep", "--attach"),
    "Evaluation": (
        "--algorithm", "--per-event", "--rules", "--ontology", "--profile", "--in-network", "--prefix-file",
        "--key-encoding", "--potential", "--potential-max",
    ),
    "Sizes": (
        "--triples", "--instances", "--values", "--queries", "--depth", "--fan-out", "--parents", "--pool",
        "--background", "--taken-back", "--batch", "--publishers", "--triples-max", "--node-load",
        "--node-memory", "--node-link", "--subscribers", "--update-triples", "--save-every", "--rate",
    ),
    "Operation": (
        "--state", "--restart", "--reconnect", "--timeout", "--interval", "--config", "--log-format", "--log-level",
        "--alive", "--metrics", "--announce", "--trace", "--bookmarks", "--blank-scope", "--source-graph", "--start-at",
        "--query-url", "--bad", "--conf", "--job",
    ),
}  # fmt: skip
"""Options of long help texts, except everyday ones, by panel."""


def set_panels(parameters: list[Any]) -> None:
    """Put the options of a command into panels, if there are more than OPTIONS_MAX."""
    options = [each for each in parameters if each.param_type_name == "option"]
    if len(options) <= OPTIONS_MAX:
        return
    panels = {name: panel for panel, names in OPTIONS.items() for name in names}
    for each in options:
        each.rich_help_panel = next((panels[name] for name in each.opts if name in panels), None)
    order = list(OPTIONS)
    # panels come in the order of their first options
    parameters.sort(key=lambda each: order.index(panel) if (panel := _panel(each)) in order else -1)


def _panel(parameter: Any) -> str | None:
    found: str | None = getattr(parameter, "rich_help_panel", None)
    return found


def put_into_panel(command: Any) -> None:
    """Put a command of the program into its panel, with its short text there, if a panel names it."""
    for panel, texts in COMMANDS.items():
        if command.name in texts:
            command.rich_help_panel, command.short_help = panel, texts[command.name]
