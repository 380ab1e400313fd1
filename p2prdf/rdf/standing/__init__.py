"""Translate the text of a standing SPARQL query to its algebra.

===================  ========================================================================== ``syntax``
the query as a tree: groups, paths, expressions, SELECT clauses ``cursor``           steps over the symbols of the
text ``triples``          reads triples and property paths ``expressions``      reads expressions, and the EXISTS and
aggregates in them ``windows``          reads REGISTER, and windows on streams with their extents ``groups``
reads group graph patterns ``selects``          reads query forms, projections and solution modifiers ``relations``
the algebra by names ``laws``             moves patterns and conditions within joins ``graphs``           patterns of
named graphs as triple patterns ``presence``         tests whether a named graph exists ``paths``            property
paths as relations ``translation``      groups as relations (SPARQL 1.1, 18.2) ``correlation``      EXISTS over a
pattern that uses outer variables ``path_seeds``       the starting points of repeated paths ``leaves``
basic graph patterns as conjunctive queries ``assembly``         operators by number, in canonical order ``lowering``
relations as operators by position: :mod:`p2prdf.rdf.algebra` ``query``            the entry point: ``parse_query``
===================  ==========================================================================
"""
