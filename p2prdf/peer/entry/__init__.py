"""The door of local clients: publications, subscriptions and what they are told."""
