"""Incremental operators of SPARQL's algebra over Z-sets.

A *Z-set* is a bag with possibly negative multiplicities (:mod:`~p2prdf.continuous.operators.zset`); a change of a
Z-set is a Z-set too.  Each operator takes the changes of its inputs and returns the change of its output;
:mod:`p2prdf.continuous.dataflow` connects them.

The contract: *the sum of an operator's outputs is a function of the sums of its inputs*; the operator's docstring
states the function.  Changes may therefore arrive in any order and in any pieces, and a row may be deleted before it
is added.

- **Linear** operators (project, filter, extend, fix, union) have no state: the change of the output is the operator
  applied to the change of the input.
- The join is **bilinear** and holds both inputs: a change of one side is joined with the whole other side.
- All other operators depend on whether a row is present.  A row counts while its multiplicity is above zero;
  otherwise it is held without effect.

The cost is proportional to the changes and their matches, not to the state; docstrings name the exceptions.
"""
