"""Requests of local clients: publications, subscriptions and the delivery of solutions."""
