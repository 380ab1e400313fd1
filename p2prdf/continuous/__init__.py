"""Standing queries: coordination of subscriptions, join order, and incremental evaluation."""
