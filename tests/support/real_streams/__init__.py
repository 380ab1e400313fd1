"""Streams of real sensors through real nodes, every report against another engine."""
