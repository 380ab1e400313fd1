"""The p2prdf daemon: one overlay peer as a process.  Start with ``python -m p2prdf_node``."""
