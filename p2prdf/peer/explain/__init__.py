"""Explanations of queries, and lists of subscriptions."""
