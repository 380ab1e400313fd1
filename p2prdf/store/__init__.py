"""What a peer holds: tables, result logs, and the indexes under them."""
