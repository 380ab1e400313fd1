"""Seeded schedules of the simulator: drawn faults, checkers of the promises, and mutants.

``python -m schedules`` (``make simulate``) runs overlays over faulty networks (:mod:`~schedules.scenario`),
``--faults`` (``make faults``) adds crashes, lost disks and partitions (:mod:`~schedules.failures`), and
``--mutants`` removes one rule of the protocol at a time (:mod:`~schedules.mutants`).  Rings of Chord and
views of SWIM have worlds of their own: :mod:`~schedules.chord_world`, :mod:`~schedules.swim_world`.
"""
