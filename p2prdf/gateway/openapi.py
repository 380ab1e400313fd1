"""OpenAPI 3.1 description of the gateway."""

from __future__ import annotations

from typing import Any, Final

from p2prdf.gateway.bodies import RDF_TYPES
from p2prdf.gateway.graph_store import PATCH_TYPE
from p2prdf.gateway.sparql import GRAPH_TYPES, RESULT_TYPES, TABLE_TYPES

__all__ = ["description"]

_PROBLEM: Final = {
    "description": "A problem document (RFC 9457) with the input and the reason.",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def _problems(*statuses: int) -> dict[str, Any]:
    return {str(status): _PROBLEM for status in (400, 401, 403, *statuses)}


def _parameter(name: str, text: str, *, place: str = "query", required: bool = False, **schema: Any) -> dict[str, Any]:
    return {
        "name": name, "in": place, "required": required, "description": text, "schema": {"type": "string", **schema}
    }


def _content(types: Any) -> dict[str, Any]:
    return {each: {"schema": {"type": "string"}} for each in types}


_TIMEOUT: Final = _parameter("timeout", "Deadline of the query, in seconds.", type="number", exclusiveMinimum=0)
_SYMMETRIC: Final = _parameter(
    "symmetric", "DESCRIBE returns triples with the resource as object, too.", enum=["true", "false"],
    default="false",
)  # fmt: skip
_USING: Final = [
    _parameter(name, f"Graph of an update's WHERE, as {clause}; repeatable.", type="array", items={"type": "string"})
    for name, clause in (("using-graph-uri", "USING"), ("using-named-graph-uri", "USING NAMED"))
]
_SINCE: Final = _parameter("since", "First publication time that counts.", enum=["now", "beginning"], default="now")
_LEASE: Final = _parameter(
    "lease", "Lease without a connection, in seconds.", type="number", minimum=1
)
_SETTLED: Final = _parameter(
    "settled", "Tell states of the graph only, each with an event mark; all publications count, so since is beginning.",
    enum=["true", "false"], default="false",
)  # fmt: skip
_RESUME: Final = _parameter("Last-Event-ID", "Id of the last received event.", place="header")
_GRAPH: Final = _parameter("graph", "IRI of the graph of statements that name none.", format="iri")
_LEVEL: Final = _parameter(
    "level", "Acknowledge when indexed at all owners, or durably staged.",
    enum=["indexed", "accepted"], default="indexed",
)  # fmt: skip
_KEY: Final = _parameter(
    "Idempotency-Key", "Key that identifies the publication when it is repeated.", place="header",
    pattern="^[!-~]{1,255}$",
)  # fmt: skip
_ANSWERS: Final[dict[str, Any]] = {
    "description": "Solutions, a truth value, or the triples of CONSTRUCT and DESCRIBE.",
    "content": _content((*RESULT_TYPES, *TABLE_TYPES, *GRAPH_TYPES)),
}
_EVENTS: Final = {
    "200": {
        "description": "Events: opened, notification, gap, leaving, error. The data of each is a JSON object.",
        "content": _content(("text/event-stream",)),
    },
    **_problems(410, 413, 503),
}
_ALGORITHM: Final = _parameter(
    "algorithm", "Join algorithm: spread by values (csbv) or a fixed chain (cqc).", enum=["csbv", "cqc"], default="csbv"
)
_EXPLANATION: Final = {
    "200": {"description": "In the format of p2prdf explain --json.",
            "content": {"application/json": {"schema": {"type": "object"}}}},
    **_problems(410, 413, 503),
}  # fmt: skip
_STATEMENTS: Final = {
    "200": {
        "description": "All statements are indexed at all owners.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Acknowledged"}}},
    },
    "202": {
        "description": "All statements are durably staged, and will be indexed.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Acknowledged"}}},
    },
    **_problems(408, 413, 415, 503),
}


_JSON: Final = {"application/json": {"schema": {"type": "object"}}}
_NAME: Final = _parameter("name", "Name that its client chose.", place="path", required=True)
_STOPPED_OR_NOT: Final = {"204": {"description": "Done."}, "404": _PROBLEM, "409": _PROBLEM, **_problems(503)}
_WEBHOOK: Final = {
    "type": "object", "required": ["name", "url", "query"], "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"},
        "url": {"type": "string", "format": "uri", "maxLength": 2000},
        "query": {"type": "string", "description": "Standing query: SELECT, ASK or CONSTRUCT."},
        "since": {"enum": ["now", "beginning"], "default": "now"},
        "batch": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
        "settled": {"type": "boolean", "default": False},
    },
}  # fmt: skip


def _webhook_paths() -> dict[str, Any]:
    """Return the paths of webhooks; a gateway without --webhooks answers 404 at them."""
    return {
        "/webhooks": {
            "post": {
                "summary": "Post solutions to a URL", "operationId": "registerWebhook",
                "requestBody": {"required": True, "content": {"application/json": {"schema": _WEBHOOK}}},
                "responses": {
                    "201": {"description": "Registered; only this answer contains the secret.",
                            "content": _JSON},
                    "404": _PROBLEM, "409": _PROBLEM, **_problems(413, 415, 503),
                },
            },
            "get": {
                "summary": "Webhooks of the client; all with the permission to observe", "operationId": "webhooks",
                "responses": {"200": {"description": "Keys in docs/reference/webhooks.md.", "content": _JSON},
                              "404": _PROBLEM, **_problems(503)},
            },
        },
        "/webhooks/{name}": {
            "get": {
                "summary": "State of a webhook", "operationId": "webhook",
                "parameters": [_NAME, _parameter("client", "Client of the webhook, with the permission to observe.")],
                "responses": {"200": {"description": "Keys in docs/reference/webhooks.md.", "content": _JSON},
                              "404": _PROBLEM, **_problems(503)},
            },
            "delete": {
                "summary": "Remove a webhook and end its subscription", "operationId": "removeWebhook",
                "parameters": [_NAME],
                "responses": {"204": {"description": "Removed."}, "404": _PROBLEM, **_problems(503)},
            },
        },
        "/webhooks/{name}/pause": {"post": {
            "summary": "Pause the delivery; solutions wait", "operationId": "pauseWebhook", "parameters": [_NAME],
            "responses": _STOPPED_OR_NOT,
        }},
        "/webhooks/{name}/resume": {"post": {
            "summary": "Resume the delivery", "operationId": "resumeWebhook",
            "parameters": [_NAME], "responses": _STOPPED_OR_NOT,
        }},
    }  # fmt: skip


def _graph_paths() -> dict[str, Any]:
    """Return the paths of the Graph Store Protocol."""
    changed = {"description": "Numbers of added and deleted statements.", "content": _JSON}
    created = {"description": "The same; the graph is new.", "content": _JSON}
    rdf = {"required": True, "content": _content(RDF_TYPES)}
    several = {"required": True, "content": _content((*RDF_TYPES, "multipart/form-data"))}
    patched = {"required": True, "content": _content((PATCH_TYPE,))}
    named = [
        _parameter("graph", "IRI of the graph.", format="iri"),
        _parameter("default", "Instead: the default graph.", maxLength=0),
    ]
    here = [_parameter("path", "Any path: the URL is the graph's IRI.", place="path", required=True)]
    found: dict[str, Any] = {}
    for path, parameters, suffix in (("/graphs", named, ""), ("/graphs/{path}", here, "Here")):
        found[path] = {
            "get": {
                "summary": "Return a graph", "operationId": f"graph{suffix}", "parameters": parameters,
                "responses": {
                    "200": {"description": "Its triples.", "content": _content(GRAPH_TYPES)}, "404": _PROBLEM,
                    **_problems(406, 503),
                },
            },
            "put": {
                "summary": "Replace the statements of a graph", "operationId": f"putGraph{suffix}",
                "parameters": parameters, "requestBody": rdf,
                "responses": {"200": changed, "201": created, **_problems(408, 413, 415, 503)},
            },
            "post": {
                "summary": "Add statements to a graph", "operationId": f"postGraph{suffix}",
                "parameters": parameters, "requestBody": several,
                "responses": {"200": changed, "201": created, **_problems(408, 413, 415, 503)},
            },
            "patch": {
                "summary": "Apply an RDF Patch to a graph", "operationId": f"patchGraph{suffix}",
                "parameters": parameters, "requestBody": patched,
                "responses": {"200": changed, **_problems(408, 413, 415, 503)},
            },
            "delete": {
                "summary": "Delete the statements of a graph", "operationId": f"deleteGraph{suffix}",
                "parameters": parameters, "responses": {"200": changed, "404": _PROBLEM, **_problems(503)},
            },
        }
    return found


def description() -> dict[str, Any]:
    """Return the OpenAPI document."""
    body = {"required": True, "content": _content(RDF_TYPES)}
    plain = {"200": {"description": "Yes.", "content": _content(("text/plain",))}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "p2prdf gateway", "version": "1",
            "description": "SPARQL 1.1 Protocol, publication, subscriptions. "
                           "Messages of WebSockets: docs/reference/http.md",
        },
        "paths": {
            "/": {"get": {
                "summary": "The paths of the gateway, or a page with links", "operationId": "index", "security": [],
                "responses": {"200": {"description": "Paths by purpose; HTML for a client that asks for it.",
                                      "content": {**_JSON, **_content(("text/html",))}},
                              "406": _PROBLEM},
            }},
            **_graph_paths(),
            "/sparql": {
                "get": {
                    "summary": "Answer a query once; without parameters, describe the service", "operationId": "query",
                    "parameters": [
                        _parameter("query", "SELECT, ASK, CONSTRUCT or DESCRIBE.", required=True), _TIMEOUT, _SYMMETRIC,
                    ],
                    "responses": {"200": _ANSWERS, **_problems(406, 413, 503)},
                },
                "post": {
                    "summary": "Answer a query once, or execute an update", "operationId": "queryOrUpdate",
                    "parameters": [_TIMEOUT, _SYMMETRIC, *_USING],
                    "requestBody": {
                        "required": True,
                        "content": {
                            **_content(("application/sparql-query", "application/sparql-update")),
                            "application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {
                                "query": {"type": "string"}, "update": {"type": "string"},
                                "timeout": {"type": "number"}, "symmetric": _SYMMETRIC["schema"],
                                **{each["name"]: each["schema"] for each in _USING},
                            }}},
                        },
                    },
                    "responses": {"200": {
                        "description": "The result; of an update, the numbers of inserted and deleted statements.",
                        "content": {**_ANSWERS["content"], **_JSON},
                    }, **_problems(406, 413, 415, 503)},
                },
            },
            "/publish": {"post": {
                "summary": "Publish statements", "operationId": "publish", "parameters": [_GRAPH, _LEVEL, _KEY],
                "requestBody": body, "responses": _STATEMENTS,
            }},
            "/retract": {"post": {
                "summary": "Delete statements", "operationId": "retract", "parameters": [_GRAPH, _LEVEL],
                "requestBody": body, "responses": _STATEMENTS,
            }},
            "/events": {
                "get": {
                    "summary": "Subscribe: server-sent events", "operationId": "events",
                    "parameters": [_parameter("query", "The standing query, for a new subscription."), _SINCE, _LEASE,
                                   _SETTLED, _RESUME, _parameter("last-event-id", "As the header Last-Event-ID.")],
                    "responses": _EVENTS,
                },
                "post": {
                    "summary": "Subscribe with a long query: server-sent events", "operationId": "eventsOfLongQuery",
                    "parameters": [_SINCE, _LEASE, _SETTLED],
                    "requestBody": {"required": True, "content": _content(("application/sparql-query",))},
                    "responses": {**_EVENTS, "415": _PROBLEM},
                },
            },
            "/subscribe": {"get": {
                "summary": "Open a WebSocket for subscriptions", "operationId": "subscribe",
                "responses": {"101": {"description": "The socket is open."}, **_problems(426, 503)},
            }},
            "/.well-known/void": {"get": {
                "summary": "VoID description of the data", "operationId": "void", "security": [],
                "responses": {"200": {"description": "The description.", "content": _content(GRAPH_TYPES)},
                              "406": _PROBLEM},
            }},
            "/status": {"get": {
                "summary": "The state of the node in use", "operationId": "status",
                "responses": {"200": {"description": "In the format of p2prdf status --json.",
                                      "content": {"application/json": {"schema": {"type": "object"}}}},
                              **_problems(503)},
            }},
            "/ring": {"get": {
                "summary": "All members of the overlay, with ring positions and loads",
                "operationId": "ring",
                "responses": {"200": {"description": "At most a second and a half old; keys in docs/reference/http.md.",
                                      "content": {"application/json": {"schema": {"type": "object"}}}},
                              **_problems(503)},
            }},
            "/subscriptions": {"get": {
                "summary": "Subscriptions of all clients, by coordinator", "operationId": "subscriptions",
                "responses": {"200": {"description": "Of the same round as the ring; keys in docs/reference/http.md.",
                                      "content": {"application/json": {"schema": {"type": "object"}}}},
                              **_problems(503)},
            }},
            "/explain": {
                "get": {
                    "summary": "Explain a query or the state of a subscription", "operationId": "explain",
                    "parameters": [_parameter("query", "SELECT, ASK or CONSTRUCT."),
                                   _parameter("subscription", "Instead: its number.", pattern="^[0-9a-f]{16}$"),
                                   _ALGORITHM],
                    "responses": _EXPLANATION,
                },
                "post": {
                    "summary": "Explain the evaluation of a long query", "operationId": "explainLongQuery",
                    "parameters": [_ALGORITHM],
                    "requestBody": {"required": True, "content": _content(("application/sparql-query",))},
                    "responses": {**_EXPLANATION, "415": _PROBLEM},
                },
            },
            **_webhook_paths(),
            "/console": {"get": {
                "summary": "The console, a web page", "operationId": "console", "security": [],
                "responses": {"200": {"description": "The page.", "content": _content(("text/html",))}},
            }},
            "/console/{name}": {"get": {
                "summary": "A file of the page", "operationId": "consoleFile", "security": [],
                "parameters": [_parameter("name", "Its name.", place="path", required=True)],
                "responses": {"200": {"description": "The file.",
                                      "content": _content(("text/css", "text/javascript", "image/svg+xml"))},
                              "404": _PROBLEM},
            }},
            "/metrics": {"get": {
                "summary": "The state of the node and the gateway, for Prometheus", "operationId": "metrics",
                "responses": {"200": {"description": "Text format 0.0.4.", "content": _content(("text/plain",))},
                              **_problems(503)},
            }},
            "/healthz": {"get": {"summary": "Whether the process lives", "operationId": "health", "security": [],
                                 "responses": plain}},
            "/readyz": {"get": {"summary": "Whether the gateway and a node answer", "operationId": "readiness",
                                "security": [], "responses": {**plain, "503": _PROBLEM}}},
            "/openapi.json": {"get": {
                "summary": "This description", "operationId": "openapi", "security": [],
                "responses": {"200": {"description": "OpenAPI 3.1.",
                                      "content": {"application/json": {"schema": {"type": "object"}}}}},
            }},
        },
        "security": [{"token": []}, {}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Problem": {
                    "type": "object", "required": ["title", "status", "code", "detail"],
                    "properties": {
                        "title": {"type": "string"}, "status": {"type": "integer"}, "code": {"type": "string"},
                        "detail": {"type": "string"}, "construct": {"type": "string"},
                        "line": {"type": "integer"}, "column": {"type": "integer"},
                    },
                },
                "Acknowledged": {
                    "type": "object", "required": ["statements", "acknowledged"],
                    "properties": {
                        "statements": {"type": "integer", "minimum": 0},
                        "acknowledged": {"enum": ["indexed", "accepted"]},
                    },
                },
            },
        },
    }  # fmt: skip
