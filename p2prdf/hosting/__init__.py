"""Hosts: equal processes that evaluate the channels that are registered in an overlay (docs/reference/channels.md).

``host`` is one of them, ``registry`` says which knowledge bases are its own.  ``base_pass`` reads a knowledge base and
keeps what is told of it; ``engine`` is the engine of :mod:`p2prdf.channels` with what it comes to as triples,
``writer`` writes them, ``answers`` tells whoever asks.
"""
