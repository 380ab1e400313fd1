"""Standing queries: the order of their patterns and the home of their subscriptions."""
