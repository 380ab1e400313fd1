"""The gateway's OpenAPI description against its behaviour, by requests that schemathesis makes (``make contract``)."""
