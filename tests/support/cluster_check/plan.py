"""The steps of a check, the steps that each one needs, and the selection on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["STEPS", "Step", "UnknownStep", "selected"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step.  ``needs``: steps that a selection of this one includes."""

    name: str
    purpose: str
    needs: tuple[str, ...] = ()


STEPS: Final = (
    Step("validate", "the API server accepts all manifests by strict validation, without a warning"),
    Step("docs", "the commands of the section Three nodes, as they stand"),
    Step("late-names", "names that resolve late: nothing is acknowledged before, one overlay after"),
    Step("start", "three nodes, gateways, workers for interests and channels become ready under `restricted`"),
    Step("rolling", "rolling restart of the nodes under load", ("start",)),
    Step("kill", "a pod killed without grace, under load", ("start",)),
    Step("drain", "a machine cordoned and drained of the nodes, under load", ("start",)),
    Step("scale", "three to five nodes and back, under load", ("start",)),
    Step("gateway", "publish, query and subscribe over HTTP", ("start",)),
    Step("interest-workers", "an interest maintained at a SPARQL endpoint", ("start",)),
    Step("channel-workers", "a channel registered, published to and read", ("start",)),
    Step("fleet", "Spark drivers and executors publish", ("start",)),
    Step("tls", "nodes, gateways and workers with certificates; a client without one is refused"),
)
"""All steps, in the order in which they run."""


class UnknownStep(Exception):
    """A name on the command line is no step; the text lists the steps."""


def selected(names: Sequence[str], *, skipped: Sequence[str] = ()) -> list[Step]:
    """Return the steps to run, in order: the named ones (all, if none is) with the steps that they need.

    A skipped step does not run, not even for a step that needs it: the cluster is then in that state already
    (``--reuse``).  Raises UnknownStep.
    """
    known = {step.name: step for step in STEPS}
    unknown = [name for name in (*names, *skipped) if name not in known]
    if unknown:
        raise UnknownStep(f"no step {unknown[0]!r}; the steps are {', '.join(known)}")
    wanted = set(names or known)
    for name in tuple(wanted):
        wanted.update(known[name].needs)
    return [step for step in STEPS if step.name in wanted and step.name not in skipped]
