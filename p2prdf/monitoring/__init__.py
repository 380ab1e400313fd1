"""What processes tell of themselves to whoever watches over them, as Prometheus reads it.

``histogram`` counts durations, ``process`` is what any process has, ``exposition`` writes metrics from a state, and
``serving`` has them, and probes, on a port.  Gateways tell the state of nodes (:mod:`p2prdf.gateway.metrics`), keepers
and hosts of channels their own (:mod:`p2prdf.presence.member_metrics`).
"""
