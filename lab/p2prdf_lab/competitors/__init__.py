"""Algorithms that the experiments compare p2prdf with.

``full_text`` and ``lucene`` match standing full-text queries, ``reasoning`` maintains closures under
rules, and ``interests`` evaluates interests in datasets.
"""
