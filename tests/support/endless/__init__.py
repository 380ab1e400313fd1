"""A stream longer than the retention of its nodes: their elements, memory and disk space over time."""
