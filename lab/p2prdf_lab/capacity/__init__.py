"""The capacity planner: load, traffic and memory of an overlay, from queries and a sample of the stream.

``planner`` runs the sample.  ``traffic`` derives the messages of a fleet, and ``ledger`` counts and weighs them.
``loaded_keys`` counts the load of each key, and ``footprint`` measures the memory of single peers.  ``growth``
extrapolates to a longer stream.  ``plan`` holds the results as plain values, and ``verdict`` explains them.
"""
