"""Random histories of transactions with settled subscriptions: an independent engine judges every mark."""
