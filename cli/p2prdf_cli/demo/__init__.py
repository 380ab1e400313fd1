"""``p2prdf demo``: a small overlay on this machine with real data; every solution is checked.

``airports`` makes the triples, ``queries`` the standing queries; ``daemons`` starts and stops the processes,
``collector`` stores solutions, ``check`` compares them with a centralised evaluation, ``report`` prints the figures,
and ``run`` drives the demonstration.
"""
