"""Messages between peers, between clients and nodes, and between a peer and its driver."""
