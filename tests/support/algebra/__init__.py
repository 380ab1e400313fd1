"""Random standing queries over random histories, each step compared with an independent engine."""
