"""The parts of a capacity plan (:mod:`p2prdf_lab.capacity.planner` makes one).

``traffic`` lets a fleet send what its peers would send, ``ledger`` counts and weighs it,
``loaded_keys`` counts what comes to each key, ``footprint`` measures the memory of single peers,
``growth`` says what that means for a longer stream, ``plan`` holds all of it as plain values and
``verdict`` puts it into words.
"""
