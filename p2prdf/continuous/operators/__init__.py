"""Incremental operators of SPARQL's algebra over Z-sets.

A *Z-set* is a bag whose multiplicities may be negative (:mod:`~p2prdf.continuous.operators.zset`); a
change of it is one, too.  Each operator takes the changes of its inputs and returns the change of its
output; :mod:`p2prdf.continuous.dataflow` ties them together.

The contract: *the sum of what an operator has returned is a function of the sums of what it was
given*.  Which function, the docstring of each says.  So it does not matter in which order changes
come, or cut into which pieces, and a row that is taken back before it is given does no harm.

* **Linear** operators (project, filter, extend, fix, union) hold nothing: the change of the output is the
  operator applied to the change of the input.
* **Bilinear**, the join holds both inputs: a change of one side meets all of the other.
* All others are not linear in some input: whether a row is there at all decides.  There a row counts if its
  multiplicity is above zero, else it is held but not counted, until it is made good.

Work is in proportion to the changes and what they match, not to what is held; exceptions are told.
"""
