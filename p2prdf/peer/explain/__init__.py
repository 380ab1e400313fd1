"""Plans, costs and lists of subscriptions for those who ask."""
