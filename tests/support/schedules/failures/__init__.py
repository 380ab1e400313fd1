"""Peers that crash, disks that forget, networks that part: the simulator's bad days, and who judges them.

:mod:`~schedules.failures.world` gives every peer a process that can be killed and a disk that can
be lost (:mod:`~schedules.failures.disk`), links that can be cut
(:mod:`~schedules.failures.links`), and a view of the others that is late and sometimes wrong
(:mod:`~schedules.failures.views`).  Clients come back after each of these
(:mod:`~schedules.failures.clients`).  :mod:`~schedules.failures.mischief` draws what happens and
when from one seed, :mod:`~schedules.failures.scenario` plays a whole story, and
:mod:`~schedules.failures.checkers` compare what came of it with what was promised.
``python -m schedules --faults`` runs seeds.
"""
