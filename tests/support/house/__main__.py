"""Print the numbers about the structure of the code: ``make house``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from house import structure
from house.passage import Passage


def main() -> int:
    """Print one line for each measure; with ``--list`` the places that count as well."""
    parser = ArgumentParser(prog="make house", description=__doc__)
    parser.add_argument("--list", action="store_true", help="also list the places that count")
    parser.add_argument("--calls", type=int, default=0, metavar="N", help="also list the N most frequent calls")
    options = parser.parse_args()

    def show(name: str, value: object, bound: object, places: list[str] | None = None) -> None:
        print(f"{name:62} {value!s:>9}   bound {bound}")
        if options.list:
            print("".join(f"    {place}\n" for place in places or ()), end="")

    rooms, floors, wires = structure.rooms(), structure.floors(), structure.late_wires()
    show("peer: packages and modules on the first level", len(rooms), 8, rooms)
    show("peer: layers of the import contract", len(floors), 6, floors)
    show("peer: attributes of other components set by constructors", len(wires), 0, wires)
    copies = [*structure.uses("replicated"), *structure.uses("splits_hot_keys")]
    show("peer: places that ask whether items are replicated", len(copies), 15, copies)
    passage = Passage()
    passage.measure()
    files = {code.co_filename for code in passage.calls}
    show("one triple, three copies, to its acknowledged answer: files", len(files), 40, sorted(files))
    show("  functions", len(passage.calls), 220)
    show("  calls", sum(passage.calls.values()), 1200)
    messages = [f"{name} {count}" for name, count in passage.messages.items()]
    show("  messages between peers", sum(passage.messages.values()), "-", messages)
    for code, count in passage.calls.most_common(options.calls):
        print(f"    {count:5}  {code.co_filename.removeprefix(str(structure.ROOT))}:{code.co_qualname}")
    product = structure.lines(*structure.PRODUCT)
    show("product without laboratory: lines of Python", product, 90_000)
    measured = [(path, *structure.prose(path)) for path in structure.documents()]
    rates = [(*structure.heads(text), path) for path, text, _ in measured]
    long = [(rate, path) for rate, words, path in rates if words >= structure.WORDS_MIN]
    many = sorted((each for each in long if each[0] >= structure.HEADS_MAX), reverse=True)
    show(
        f"files with {structure.HEADS_MAX:g} or more heads per 1,000 words", f"{len(many)}/{len(rates)}", 0,
        [f"{rate:5.1f} {path.relative_to(structure.ROOT)}" for rate, path in many],
    )  # fmt: skip
    fragments = [(count, path) for path, _, count in measured if count]
    show("docstrings that are fragments", sum(count for count, _ in fragments), 0, [f"{c} {p}" for c, p in fragments])
    show("glossary: entries", structure.glossary(), 70)
    return 0


if __name__ == "__main__":
    sys.exit(main())
