"""The cost of permissions for a publication: one node with TLS, and equal statements of clients with various checks.

All publish in turns at one node, which knows the statements' terms by then, so only the checks differ.  A
node's certificate may do everything, so nothing is checked; the other clients are limited to graphs, or to
predicates and subjects as well. A second table has the checks alone, in this process.  CPU seconds: this
machine does other things as well.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import uvloop
from daemons import BATCH
from rich.console import Console
from rich.table import Table
from tls_files import Certificates, tls_of

import p2prdf
from p2prdf.client import Client
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.ntriples import TripleBatch
from p2prdf_lab.workloads.paths import path_triples
from p2prdf_node.permissions_file import read_permissions

GRAPHS = 100
_NARROW = "predicates = ['urn:']\nsubjects = ['urn:']\n"
PERMISSIONS = f"""
[clients.default]
publish = ["default"]
[clients.graphs]
publish = ["urn:graph:"]
[clients.narrow]
publish = ["urn:graph:"]
{_NARROW}
"""
CASES = {
    "default graph, not looked at": ("node", False), "default graph, graph looked at": ("default", False),
    f"{GRAPHS} graphs, not looked at": ("node", True), f"{GRAPHS} graphs, graphs looked at": ("graphs", True),
    f"{GRAPHS} graphs, predicates and subjects too": ("narrow", True),
}  # fmt: skip


def _texts(triples: int) -> list[list[str]]:
    """Return statements as columns of terms; all IRIs have the same beginning."""
    dictionary = TermDictionary()
    s, p, o = (dictionary.texts(column.tolist()) for column in path_triples(dictionary, triples, seed=2))
    graphs = [f"<urn:graph:{at % GRAPHS}>" for at in range(triples)]
    return [[_urn(term) for term in s], [_urn(term) for term in p], o, graphs]


def _urn(term: str) -> str:
    return term if term.startswith("<urn:") else f"<urn:{term[1:]}"


def _looking(console: Console, texts: list[list[str]]) -> None:
    table = Table(title=f"the looking alone, {len(texts[0]):,} statements in frames of {BATCH:,}")
    table.add_column("permissions")
    table.add_column("ns a statement", justify="right")
    dictionary = TermDictionary()
    s, p, o, g = (np.array(dictionary.intern_all(column), np.uint32) for column in texts)
    for name, graph in (("default", None), ("graphs", g), ("narrow", g)):
        permissions = read_permissions(PERMISSIONS).of(name)
        best = float("inf")
        for _ in range(5):
            start = time.process_time()
            for at in range(0, len(s), BATCH):
                part = slice(at, at + BATCH)
                within = None if graph is None else graph[part]
                permissions.check_rows(dictionary, s[part], p[part], o[part], within, removed=False)
            best = min(best, time.process_time() - start)
        table.add_row(name, f"{best / len(s) * 1e9:,.0f}")
    console.print(table)


class _Node:
    """One node with permissions, and clients of all names at it."""

    def __init__(self, folder: Path):
        certificates = Certificates(folder)
        (folder / "permissions.toml").write_text(PERMISSIONS)
        settings = {**certificates.settings(certificates.node()), "permissions": folder / "permissions.toml"}
        options = [word for name, value in settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "p2prdf_node", "--listen", "127.0.0.1:0", "--replicas", "1",
                 "--copies-min", "1", *options], stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[1]
        names = ("default", "graphs", "narrow")
        self.tls = {name: tls_of(certificates.client(name)) for name in names} | {"node": tls_of(certificates.node())}

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the node has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Stop it."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


async def _statements(texts: list[list[str]], *, graphs: bool) -> AsyncIterator[TripleBatch | tuple[str, ...]]:
    if graphs:
        for statement in zip(*texts, strict=True):
            yield statement
        return
    for at in range(0, len(texts[0]), BATCH):
        yield TripleBatch(*(column[at : at + BATCH] for column in texts[:3]), statements_done=at + BATCH, line=0)


async def _published(node: _Node, client: Client, texts: list[list[str]], *, graphs: bool) -> float:
    before = node.cpu_seconds()
    await client.publish(_statements(texts, graphs=graphs), batch_triples=BATCH)
    return node.cpu_seconds() - before


async def _all(console: Console, quick: bool) -> bool:
    texts = _texts(50_000 if quick else 200_000)
    turns = 3 if quick else 5
    _looking(console, texts)
    taken: dict[str, list[float]] = {name: [] for name in CASES}
    with tempfile.TemporaryDirectory(prefix="p2prdf-bench-") as folder, contextlib.closing(_Node(Path(folder))) as node:
        clients = {name: await p2prdf.connect(node.address, tls=tls) for name, tls in node.tls.items()}
        for graphs in (False, True):
            await _published(node, clients["node"], texts, graphs=graphs)  # its terms are known from then on
        for turn in range(turns):
            for name in CASES if turn % 2 == 0 else reversed(CASES):
                who, graphs = CASES[name]
                taken[name].append(await _published(node, clients[who], texts, graphs=graphs))
        for client in clients.values():
            await client.close()
    table = Table(title=f"one node, all roles, {len(texts[0]):,} statements, {turns} turns")
    for column in ("permissions", "CPU of the node, median (range)", "beside not looked at"):
        table.add_column(column, justify="left" if column == "permissions" else "right")
    medians = {name: sorted(each)[len(each) // 2] for name, each in taken.items()}
    for name, each in taken.items():
        base = next(medians[other] for other in CASES if CASES[other] == ("node", CASES[name][1]))
        row = f"{medians[name]:.2f} s ({min(each):.2f} to {max(each):.2f})"
        table.add_row(name, row, f"{medians[name] / base:.3f}")
    console.print(table)
    return True


def run(console: Console, quick: bool) -> bool:
    """Print the cost of permissions; there is no bar."""
    return uvloop.run(_all(console, quick))
