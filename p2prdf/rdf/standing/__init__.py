"""Translate the text of a SPARQL query to the operators of a standing query, by three trees.

1. The *syntax tree* (``syntax``), read from the symbols of the text (``cursor``) by ``selects``, ``groups``,
   ``triples``, ``expressions`` and ``windows``.
2. The *algebra by names* (``relations``): ``translation`` makes it (SPARQL 1.1, 18.2), with ``graphs``, ``presence``
   and ``paths``; ``laws`` move patterns and conditions in it; ``correlation`` and ``path_seeds`` treat EXISTS and
   repeated paths.
3. The *operators by position* (:mod:`p2prdf.rdf.algebra`), the compiled plan: ``lowering`` makes them, with ``leaves``
   for the overlay and ``inference`` for rules; ``assembly`` brings them into canonical order, and ``form`` serialises
   them.

``query`` is the entry point.  ``conjunctive`` accepts queries that are one leaf, ``insertion`` rules.
"""
