"""``p2prdf experiment``: the seed paper's experiments and the capacity planner, with tables and figures.

``command`` makes one command for each experiment of the registry, ``reasoning`` is the one about stream reasoning,
``full_text`` the one about full-text queries, ``interest_replica`` the one about replicas,
``semantic_channels`` the one about channels over a knowledge base,
``plan`` is the planner's;
``report`` and ``plan_report`` write results for people, ``figure`` draws them (the only module that
imports matplotlib), ``output`` is where documents and figures go, ``queries`` reads query files.
"""
