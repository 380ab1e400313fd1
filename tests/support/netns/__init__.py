"""Several hosts on one machine: nodes in network namespaces of their own, with addresses, cables and a switch.

``make netns`` (docs/how-to/run-fault-tests.md#several-hosts).  The processes and their hosts::

    this process: publishers, followers, probes, judge (package chaos)      10.74.0.1
         │
    ─────┴──────┬─────────────┬─────────── a bridge in a namespace of its own
             host n0       host n1  ...    each with one node process       10.74.1.N

``lan`` makes namespaces, cables and names, and breaks them; ``hosts`` puts nodes into them; ``stories`` holds
the faults that happen while clients publish and subscribe.  The clients and the judge are those of
:mod:`chaos`.

Everything is inside namespaces that this process alone holds, so nothing is left behind however it ends, and no
other network of the machine is touched.
"""
