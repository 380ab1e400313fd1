"""Golden scenario files: a script of commands, each block with its expected output, played on real peers.

:mod:`~scenario_files.script` reads and writes the files, :mod:`~scenario_files.cluster` runs the peers in virtual time,
:mod:`~scenario_files.readable` prints messages, :mod:`~scenario_files.commands` executes the commands.  The format is
that of etcd raft's ``testdata`` and Go's ``datadriven``.
"""
