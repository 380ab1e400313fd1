"""Replicas of a part of a dataset: changesets read, targets written, resumable in between.

``changeset_files``, ``rdf_patch`` and ``dump_diff`` are sources on the disk, ``changeset_server`` is one on the web (by
``downloads`` and ``server_index``), and ``sources`` tells them apart by their names; ``target`` is what all targets
are, ``endpoint``, ``embedded`` and ``triple_files`` are the three kinds; ``replica`` applies changesets to a target
under an interest.
What is to be sent is decided by :mod:`p2prdf.interest`; ``following`` does without it, by a standing query in an
overlay, to which ``publishing`` brings a dataset's changesets.

Interests that are registered in an overlay are kept by a ``keeper``: ``registry`` says which are its own,
``dataset_pass`` reads a dataset for all of them (``candidates`` is the query), ``kept_target`` brings each target up,
``answers`` tells whoever asks.
"""
