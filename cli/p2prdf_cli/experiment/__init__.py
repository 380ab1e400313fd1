"""``p2prdf experiment``: the seed paper's experiments, with tables and figures.

``command`` makes one command for each experiment of the registry, ``report`` writes results for
people, ``figure`` draws them (the only module that imports matplotlib), ``output`` is where
documents and figures go.
"""
