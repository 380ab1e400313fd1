"""Coordinators of subscriptions: opening, evaluation, delivery and their replicated records."""
