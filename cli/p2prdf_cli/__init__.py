"""The ``p2prdf`` command line.

``app`` assembles the commands; each command group has its own module; ``render`` writes for
people and machines; ``exits`` turns errors into one line and an exit code.  The command line
talks to nodes through :mod:`p2prdf.client` only.
"""
