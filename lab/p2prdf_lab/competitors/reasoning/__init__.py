"""Programs that keep a closure under rules up to date, each a :class:`p2prdf.reasoning.Maintenance`.

``naive`` recomputes, ``volz`` deletes and rederives, ``counting`` counts derivations, and ``paper`` is
the stream-reasoning paper's program as printed.
"""
