"""Peers that crash, disks that forget, networks that part: the simulator's bad days, and who judges them.

:mod:`~p2prdf.sim.failures.world` gives every peer a process that can be killed and a disk that can
be lost (:mod:`~p2prdf.sim.failures.disk`), links that can be cut
(:mod:`~p2prdf.sim.failures.links`), and a view of the others that is late and sometimes wrong
(:mod:`~p2prdf.sim.failures.views`).  Clients come back after each of these
(:mod:`~p2prdf.sim.failures.clients`).  :mod:`~p2prdf.sim.failures.mischief` draws what happens and
when from one seed, :mod:`~p2prdf.sim.failures.scenario` plays a whole story, and
:mod:`~p2prdf.sim.failures.checkers` compare what came of it with what was promised.
``python -m p2prdf.sim --faults`` runs seeds.
"""
