"""Programs that keep a closure under rules up to date, each with the interface of ``maintenance``.

``naive`` recomputes, ``volz`` deletes and rederives, ``counting`` counts derivations, and ``paper`` is
the stream-reasoning paper's program as printed.
"""
