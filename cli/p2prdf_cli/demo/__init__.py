"""``p2prdf demo``: a small overlay on this machine, real data, answers arriving, all of them checked.

``airports`` makes the triples, ``queries`` the standing queries, ``daemons`` starts and stops
the processes, ``collector`` keeps what arrives, ``check`` compares it with a centralised
evaluation, ``report`` draws it, ``run`` tells the story in order.
"""
