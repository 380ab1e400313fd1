"""Bad input for real nodes and gateways: datagrams, frames and HTTP requests by the million, reproducible by a seed."""
