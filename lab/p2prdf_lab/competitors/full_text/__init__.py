"""Matchers of standing full-text queries, each with the interface of ``matcher``.

``rtf_m`` and ``rtf_s`` are the two variants of the RTF paper's tries (``rtf`` is their common part),
``ibroker`` is that paper's baseline, and ``brute`` evaluates every query.  ``split`` removes the
disjunctions from queries, which the paper's structures do not support.  ``memory`` counts bytes.
"""
