"""Real node processes, real kills: a small cluster under faults, and a judge of the delivered answers.

``make chaos MINUTES=10`` (docs/how-to/run-fault-tests.md).  The processes and their parts::

    publishers ─┐ client library                                   ┌─> followers ──> judge
    probes ─────┴──────────────> node processes <─── kill -9 ──────┤   (every answer, by identity)
                                  │      ▲       SIGSTOP, restart  └─> probes (how long answers took)
                                  └proxy─┘ delay, loss, cuts, half-open (optional)

``cluster`` starts, kills and restarts the processes; ``proxy`` stands between them if asked for; ``workload``
makes triples and queries; ``publishing`` and ``following`` are the clients; ``faults`` is the loop of faults;
``judge`` compares the delivered answers with the owed ones; ``report`` formats the verdict; ``command`` puts it
together. ``subscriber_kills`` is the other mode: `p2prdf subscribe --name` is killed again and again while it
writes a file.

None of this is part of the wheel: it is how the project tests itself, like the benchmarks.
"""
