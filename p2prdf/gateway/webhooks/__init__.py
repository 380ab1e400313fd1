"""Webhooks: solutions of standing queries, posted to URLs by a group of gateways.

Registrations are stored in the overlay, sealed (:mod:`registration`).  Each gateway with the signing keys
(:mod:`keys`) knows all of them (:mod:`registry`) and delivers its share (:mod:`host`).  The solutions of a webhook
are cut into requests (:mod:`message`), sent one at a time until the receiver has accepted each (:mod:`delivery`,
:mod:`sender`).  :mod:`handlers` has the HTTP paths.
"""

from __future__ import annotations

from p2prdf.gateway.webhooks.host import WebhookConfig, WebhookHost
from p2prdf.gateway.webhooks.keys import SigningKeys, read_keys
from p2prdf.gateway.webhooks.sender import Sender

__all__ = ["Sender", "SigningKeys", "WebhookConfig", "WebhookHost", "read_keys"]
