"""The stored state of a peer: tables, result logs, and the indexes beneath them."""
