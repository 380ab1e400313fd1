"""Webhooks: the answers of standing queries, posted to URLs by whichever gateways there are."""
