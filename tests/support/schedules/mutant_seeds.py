"""Schedules that catch mutants: in the configuration of daemons or, if none is known, in a varied one.

``tests/simulation/test_days.py`` runs each of them; ``python -m schedules --mutants`` searches for further ones.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["OF_DAEMONS", "VARIED", "Known"]


class Known(NamedTuple):
    """A kind of schedules, a seed, and the kind of problem that the mutant causes there."""

    days: str
    seed: int
    problem: str


OF_DAEMONS: Final = {
    "acknowledge-before-sync": Known("plain", 2, "copies"),
    "acknowledge-before-record": Known("plain", 20, "copies"),
    "one-copy": Known("plain", 1, "copies"),
    "no-probe-of-rows": Known("plain", 0, "missing"),
    "unordered-identities": Known("plain", 0, "missing"),
    "no-repair": Known("plain", 0, "restless"),
    "forget-on-restart": Known("power cuts", 1, "missing"),
    "give-up-lost": Known("plain", 1, "copies"),
    "begun-before-live": Known("members", 0, "missing"),
    "one-stay": Known("removals", 1, "missing"),
    "rows-live-on": Known("removals", 2, "extra"),
    "answers-after-withdrawals": Known("removals", 63, "missing"),
    "always-sure": Known("removals", 63, "told"),
    "never-sure": Known("removals", 63, "extra"),
    "bookmark-before-answers": Known("bookmarks", 0, "bookmark"),
    "names-taken-for-new": Known("disks and snapshots", 3, "missing"),
    "withdrawn-leaf-comes-back": Known("standing queries", 4, "snapshot"),
    "ends-untold": Known("plain", 2, "restless"),
    "graphs-mixed": Known("drawn", 91_000_025, "extra"),
    "unknown-withdrawals-refused": Known("pinned, of daemons", 0, "restless"),
}
"""Schedules in the configuration of daemons, by mutant."""

VARIED: Final = {
    "settled-early": Known("cuts", 3_000_015, "twice"),
    "no-commit-wait": Known("clocks", 51, "missing"),
    "late-removals": Known("removals and disks", 17, "restless"),
    "marks-without-outbox": Known("bookmarks", 19, "bookmark"),
    "late-look": Known("stragglers, busy", 178, "bookmark"),
    "gone-alone": Known("leaving alone", 87, "copies"),
    "known-late": Known("parted, again", 414, "missing"),
    "no-roll-forward-after-restart": Known("gone for good", 0, "part"),
    "never-cut-off": Known("parted, late", 42, "missing"),
    "lost-together": Known("racks", 87, "twice"),
    "told-elsewhere-ignored": Known("parted, standing queries", 9, "extra"),
    "bare-contents-not-repaired": Known("parted, standing queries", 9, "extra"),
    "begun-anew": Known("disks and snapshots", 53, "twice"),
    "narrow-forever": Known("parted, again", 153, "missing"),
    "ended-unheard": Known("parted, again", 30, "told"),
    "sure-at-once": Known("standing queries, nothing removed", 161, "taken back"),
    "first-at-once": Known("disks and snapshots, told of the living", 1_101, "twice"),
    "strangers-unheard": Known("strangers", 1, "bookmark"),
    "staged-not-in-snapshots": Known("disks and snapshots", 7, "snapshot"),
    "without-origin": Known("gone halfway", 2, "part"),
    "fellows-know": Known("unseen absences", 4, "twice"),
}
"""Schedules in a varied configuration, by mutant."""
