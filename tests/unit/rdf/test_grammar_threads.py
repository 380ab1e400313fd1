"""All threads of a process share one grammar, which its first uses complete."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading
sys.setswitchinterval(1e-6)
from p2prdf.rdf.standing.query import parse_query
begin, failed = threading.Barrier(8), []

def parse(number):
    begin.wait()
    for text in ("?o > %d && STRLEN(?o) < 3 || ?o IN (1, 2)", "BOUND(?s) && REGEX(?o, 'a%d')"):
        try:
            parse_query("SELECT (COUNT(*) AS ?n) { ?s <urn:p> ?o FILTER(" + text % number + ") }")
        except Exception as error:
            failed.append(repr(error))

threads = [threading.Thread(target=parse, args=(number,)) for number in range(8)]
for each in threads:
    each.start()
for each in threads:
    each.join()
sys.exit(f"{len(failed)} queries failed: {failed[:1]}" if failed else 0)
"""


def test_threads_that_use_the_grammar_first_at_one_moment_do_not_break_it():
    """In a new process, as a broken grammar stays broken: a gateway refused all filters from then on."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
