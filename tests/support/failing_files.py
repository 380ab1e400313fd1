"""Disks for tests: one that fails on request, one without waiting times."""

from __future__ import annotations

import os

from p2prdf_node.segment import Files

__all__ = ["FailingFiles", "QuickFiles"]


class QuickFiles(Files):
    """Says that everything is on the disk: for tests in which no machine stops, and disks are shared."""

    def sync(self, descriptor):
        pass

    def sync_directory(self, path):
        pass


class FailingFiles(Files):
    """Fails the chosen calls; a failed write may have written a part."""

    def __init__(self):
        self.errors = {}
        self.partial = 0

    def fail(self, call, number, *, partial=0):
        self.errors[call] = number
        self.partial = partial

    def _raise(self, call):
        if call in self.errors:
            raise OSError(self.errors[call], os.strerror(self.errors[call]))

    def create(self, path):
        self._raise("create")
        return super().create(path)

    def write(self, descriptor, parts):
        if "write" in self.errors and self.partial:
            os.write(descriptor, b"".join(parts)[: self.partial])
        self._raise("write")
        super().write(descriptor, parts)

    def sync(self, descriptor):
        self._raise("sync")
        super().sync(descriptor)

    def sync_directory(self, path):
        self._raise("sync_directory")
        super().sync_directory(path)
