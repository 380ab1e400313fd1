"""From the text of a standing SPARQL query to its algebra.

===================  ==========================================================================
``syntax``           what a query says, as a tree: groups, paths, expressions, SELECT clauses
``cursor``           steps over the symbols of the text
``triples``          triples and property paths, read
``expressions``      where an expression ends, and what in it is no expression: EXISTS, aggregates
``windows``          REGISTER, windows on streams and their extents, read
``groups``           group graph patterns, read
``selects``          query forms, projections and solution modifiers, read
``relations``        the algebra by names
``laws``             which patterns and conditions may change places, and do
``graphs``           patterns of named graphs as triple patterns
``presence``         whether a named graph is there
``paths``            property paths as relations
``translation``      groups as relations, as SPARQL 1.1, 18.2 has it
``correlation``      what EXISTS means for a pattern that sees the variables outside of it
``ways``             where the ways of a repeated path start from
``leaves``           basic graph patterns as conjunctive queries
``assembly``         operators by number, in the canonical order
``lowering``         from names to places: :mod:`p2prdf.rdf.algebra`
``query``            all of it: ``parse_query``
===================  ==========================================================================
"""
