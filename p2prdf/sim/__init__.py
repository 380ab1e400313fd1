"""Driver 1: peers in virtual time over a seeded, faulty network, with an oracle and checkers.

:mod:`~p2prdf.sim.world` carries peers, :mod:`~p2prdf.sim.oracle` says what subscribers are owed,
:mod:`~p2prdf.sim.scenario` draws a whole story from a seed and compares the two, and
:mod:`~p2prdf.sim.events` runs queries over timed events.  ``python -m p2prdf.sim`` runs seeds.
"""
