"""Replicas of a part of a dataset: read changesets, write targets, resume after any interruption.

Sources: ``changeset_files``, ``rdf_patch`` and ``dump_diff`` read files, ``changeset_server`` a web server
(through ``downloads`` and ``server_index``); ``sources`` selects by name. Targets: ``target`` is their
interface, ``endpoint``, ``embedded`` and ``triple_files`` are its implementations. ``replica`` applies
changesets to a target under an interest; :mod:`p2prdf.interest` computes the changes. ``following`` uses a
standing query in an overlay instead, to which ``publishing`` brings a dataset's changesets.

A ``worker`` (interest worker) maintains the interests registered in an overlay: ``registry`` assigns its share,
``dataset_pass`` reads a dataset for all of them (``candidates`` makes the query), ``maintained_target`` updates each
target, and ``answers`` answers requests.
"""
