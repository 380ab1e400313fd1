"""What peers, clients and drivers say to each other."""
