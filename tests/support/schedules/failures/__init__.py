"""Fault schedules: crashes, lost disks, partitions and other failures in the simulator, and their checkers.

:mod:`~schedules.failures.world` gives every peer a process that can be killed, a disk that can be lost
(:mod:`~schedules.failures.disk`), links that can be cut (:mod:`~schedules.failures.links`), and a late and sometimes
wrong view of the others (:mod:`~schedules.failures.views`).  Clients reconnect after failures
(:mod:`~schedules.failures.clients`).  :mod:`~schedules.failures.mischief` draws the failures of a seed,
:mod:`~schedules.failures.scenario` runs a schedule, and :mod:`~schedules.failures.checkers` compares the result with
the promises.  ``python -m schedules --faults`` runs seeds.
"""
