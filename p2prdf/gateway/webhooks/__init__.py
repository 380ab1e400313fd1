"""Webhooks: the answers of standing queries, posted to URLs by whichever gateways there are.

What is registered lies in the overlay, sealed (:mod:`registration`), and each gateway with signing keys (:mod:`keys`)
knows all of it (:mod:`registry`) and delivers its share (:mod:`host`).  A webhook's answers are cut into requests
(:mod:`message`) and sent, one at a time, until the receiver has taken each (:mod:`delivery`, :mod:`sender`).
:mod:`handlers` has the paths of HTTP.
"""

from __future__ import annotations

from p2prdf.gateway.webhooks.host import WebhookConfig, WebhookHost
from p2prdf.gateway.webhooks.keys import SigningKeys, read_keys
from p2prdf.gateway.webhooks.sender import Sender

__all__ = ["Sender", "SigningKeys", "WebhookConfig", "WebhookHost", "read_keys"]
