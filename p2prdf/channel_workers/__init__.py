"""Channel workers: processes that evaluate the channels of an overlay (docs/reference/channels.md).

``worker`` is a channel worker; ``registry`` assigns knowledge bases to workers.  ``base_pass`` reads a knowledge base
and keeps its notifications up to date; ``engine`` wraps :mod:`p2prdf.channels` and returns notifications as triples;
``writer`` publishes those triples; ``answers`` answers requests for statistics.
"""
