"""The commands ``p2prdf experiment NAME``: experiments of the papers and the capacity planner.

``command`` creates one command for each experiment of the registry.  ``reasoning``, ``full_text``,
``interest_replica`` and ``semantic_channels`` have the commands with options of their own, ``plan`` that of the
planner.  ``report`` and ``plan_report`` write results as text, and ``figure`` draws them (the only module that imports
matplotlib).  ``output`` writes documents and figures, and ``queries`` reads query files.
"""
