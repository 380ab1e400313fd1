"""Equal processes that share work through an overlay: who is there, whose work is whose, and what is asked of them.

``group`` names the processes of one kind and ranks them, ``roll`` knows which are there from triples that come and go,
``member`` is one of them: it is there, looks after the others, reads what there is to do, and does its share.
``union`` writes the standing query by which all of that is read, ``overlay`` says what is asked of a client.
Keepers of replicas (:mod:`p2prdf.replica.keeper`) and hosts of channels (:mod:`p2prdf.hosting.host`) are such.
"""
