"""Real Spark into real nodes while executors, drivers and nodes are killed; answers against an independent engine."""
