"""Data and queries of the papers' experiments, generated from a seed or read from files."""
