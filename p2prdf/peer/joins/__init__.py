"""Joins in the network: stored triples and waiting rows, query chains and value trees, index advertisements."""
