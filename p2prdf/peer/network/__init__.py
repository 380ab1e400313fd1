"""Messages between peers: sending until acknowledged, receiving once, batches by destination, members and quorum."""
