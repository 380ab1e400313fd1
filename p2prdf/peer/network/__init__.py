"""Messages between peers: reliable delivery, batches by destination, membership and quorum."""
