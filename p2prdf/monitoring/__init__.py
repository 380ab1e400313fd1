"""Metrics and probes of processes, in Prometheus' format.

``histogram`` counts durations, ``process`` measures the process itself, ``exposition`` writes metrics from a state, and
``serving`` serves metrics and probes on a port.  Gateways report the metrics of nodes (:mod:`p2prdf.gateway.metrics`);
sync workers and channel workers report their own (:mod:`p2prdf.workers.worker_metrics`).
"""
