"""Serialisation of interests with their triples, so that a replica continues after a restart.

The bytes contain the interests as text and the held triples as N-Triples: those of targets, then the potentially
interesting ones in the order in which a bound gives them up.  Everything else follows from these and is computed when
they are read, so no file can make the counts wrong, and newer programs can read older files.  A checksum at the end
reveals damage.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import Final

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.interest.changeset import Changeset, Triple
from p2prdf.interest.core import MATCHES_MAX
from p2prdf.interest.expression import parse_interest
from p2prdf.interest.interests import Interests
from p2prdf.rdf.ntriples import read_triples

__all__ = ["restore", "save"]

_MAGIC: Final = b"p2prdf interests 1\n"
_DIGEST: Final = hashlib.sha256().digest_size * 2 + 1


def save(interests: Interests, *, position: str = "", note: str = "") -> bytes:
    """Return interests as bytes.  ``position``: of the last applied changeset; ``note``: any further text to keep."""
    head = {
        "interests": [[name, interests.interest(name).text] for name in interests],
        "potential_max": interests.potential_max,
        "position": position, "note": note,
        "triples": interests.triples,
    }
    parts = [_MAGIC, json.dumps(head, ensure_ascii=True).encode(), b"\n"]
    parts += [f"{s} {p} {o} .\n".encode() for s, p, o in interests.held()]
    body = b"".join(parts)
    return body + hashlib.sha256(body).hexdigest().encode() + b"\n"


def restore(
    data: bytes, *, source: str = "saved interests", matches_max: int = MATCHES_MAX
) -> tuple[Interests, str, str]:
    """Return the saved interests, the position of the last applied changeset, and the note.

    Raises DataRefused, which names ``source``, for damaged data or data of another kind.
    """
    if not data.startswith(_MAGIC):
        raise DataRefused("not saved interests, or those of another version", source=source)
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if hashlib.sha256(body).hexdigest().encode() + b"\n" != digest:
        raise DataRefused("saved interests are damaged: the checksum does not match", source=source)
    end = body.index(b"\n", len(_MAGIC))
    try:
        head = json.loads(body[len(_MAGIC) : end])
        interests = Interests(potential_max=head["potential_max"], matches_max=matches_max)
        for name, text in head["interests"]:
            interests.add(name, parse_interest(text))
        position, note, count = str(head["position"]), str(head["note"]), int(head["triples"])
    except (ValueError, KeyError, TypeError, LocalProtocolError) as error:
        raise DataRefused(f"saved interests cannot be read: {error}", source=source) from error
    triples: list[Triple] = []
    for batch in read_triples(io.BytesIO(body[end + 1 :]), publication_id="saved", source=source, strict=True):
        triples += zip(batch.s, batch.p, batch.o, strict=True)
    interests.apply(Changeset(added=tuple(triples)))
    if interests.triples != count:
        raise DataRefused(f"only {interests.triples} of {count} triples could be restored", source=source)
    return interests, position, note
