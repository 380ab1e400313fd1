"""Driver 1: peers in virtual time over a seeded, faulty network, with an oracle.

:mod:`~p2prdf.sim.world` runs the peers, :mod:`~p2prdf.sim.network` delays and loses their messages,
:mod:`~p2prdf.sim.oracle` computes the answers that subscribers must get, and :mod:`~p2prdf.sim.events` runs queries
over timed events (``p2prdf simulate``).
"""
