"""The laboratory: experiments of the papers, the capacity planner, and the programs that they compare.

The laboratory depends on p2prdf, which does not depend on the laboratory.  It attaches the command
``p2prdf experiment`` by the entry point group ``p2prdf.commands``.

- ``commands``: one command for each experiment, and ``plan``; tables, figures, JSON.
- ``experiments``: the measurements.  ``capacity``: the planner.
- ``competitors``: algorithms of the papers and of others, to compare p2prdf with.
- ``fleets``: overlays of tens of thousands of peers, held in columns.
- ``workloads``: data and queries of the papers.
"""
