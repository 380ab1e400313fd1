"""RDF terms from Arrow columns: whole columns at once, through their distinct values.

The cost depends on the number of distinct values: spelling numbers, escaping text, percent-encoding, and
checking that a text is a canonical term. Almost all terms match a regular expression for plain canonical terms.
Only the others are parsed, one by one, and respelled if they are terms in another spelling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from p2prdf.errors import DataRefused, LocalProtocolError
from p2prdf.publish.template import SAFE, Template, encoded
from p2prdf.rdf import quads, terms

__all__ = [
    "BAD", "IRI", "LITERAL", "Checked", "are_triples", "check_terms", "flags", "from_template", "literals", "texts_of",
    "type_of",
]  # fmt: skip

_XSD: Final = terms.XSD
_PLAIN: Final = rf"\A(?:{terms.SURE_IRI}|{terms.SURE_LITERAL})\z"
_ESCAPED: Final = r'["\\\x00-\x1f\x7f]'
_PLAIN_BYTES_MAX: Final = terms.TERM_BYTES_MAX

BAD, IRI, LITERAL = range(3)
"""The kind of a text: not a term, an IRI, a literal."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Result of checking distinct texts: canonical terms, each once.

    ``place``: for each checked text, the position of its term in ``texts``; ``kinds``: its kind. Both have one
    more entry at the end, for null. ``reasons``: why texts are bad.
    """

    texts: list[str]
    place: npt.NDArray[np.uint32]
    kinds: npt.NDArray[np.uint8]
    reasons: dict[int, str]
    respelled: bool
    """Whether ``texts`` differ from the checked texts."""


def check_terms(distinct: Any) -> Checked:
    """Check distinct texts (an Arrow array of strings without nulls)."""
    count = len(distinct)
    texts = texts_of(distinct)
    plain = flags(pc.match_substring_regex(distinct, _PLAIN))
    for ending in terms.RESPELLED:
        plain &= ~flags(pc.ends_with(distinct, ending))
    plain &= ~flags(pc.match_substring(distinct, quads.RESERVED))
    plain &= ~flags(pc.greater(pc.binary_length(distinct), _PLAIN_BYTES_MAX))
    place = np.arange(count + 1, dtype=np.uint32)
    kinds = np.full(count + 1, BAD, np.uint8)
    kinds[:count][plain] = IRI
    kinds[:count][plain & flags(pc.starts_with(distinct, '"'))] = LITERAL
    reasons: dict[int, str] = {count: "null"}
    other = np.flatnonzero(~plain).tolist()
    respelled: list[int] = []
    for at in other:
        try:
            known = terms.unlabelled(texts[at][2:]) if texts[at].startswith("_:") else None  # from an earlier result
            found = known or terms.parse_term(texts[at])  # invalid UTF-8 became surrogates, which no term contains
        except DataRefused as error:
            reasons[at] = error.reason
            continue
        if quads.is_reserved(found):
            reasons[at] = f"of a datatype that is reserved: <{quads.RESERVED}...>"
            continue
        kinds[at] = LITERAL if terms.is_object_only(found) else IRI
        if found != texts[at]:
            texts[at] = found
            respelled.append(at)
    if respelled:  # two texts may be one term
        numbers: dict[str, int] = {}
        place[:count] = [numbers.setdefault(text, len(numbers)) for text in texts]
        texts = list(numbers)
    return Checked(texts, place, kinds, reasons, bool(respelled))


def are_triples(kinds: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Return which columns of three kinds form triples.  ``kinds``: one row for each part, or more rows."""
    fine: npt.NDArray[np.bool_] = (kinds[0] == IRI) & (kinds[1] == IRI) & (kinds[2] != BAD)
    return fine


def flags(values: Any) -> npt.NDArray[np.bool_]:
    """Convert an Arrow array of booleans to a numpy array."""
    found: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def type_of(kind: Any) -> str:
    """Return the datatype (an IRI) of the literals of an Arrow type; for a list, that of its items.

    Raises LocalProtocolError for a type without a datatype.
    """
    types = pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        return type_of(kind.value_type)
    for holds, name in (
        (types.is_integer, "integer"), (types.is_boolean, "boolean"), (types.is_float64, "double"),
        (types.is_float32, "float"), (types.is_decimal, "decimal"), (types.is_date, "date"),
        (types.is_timestamp, "dateTime"), (types.is_string, "string"), (types.is_large_string, "string"),
        (types.is_binary, "hexBinary"), (types.is_large_binary, "hexBinary"),
    ):  # fmt: skip
        if holds(kind):
            return _XSD + name
    raise LocalProtocolError(f"values of type {kind} have no datatype in RDF: select parts, or cast them to string")


def literals(values: Any, datatype: str | None = None, language: str | None = None) -> Any:
    """Return a column of literals, null where ``values`` is; the default datatype is the type's own."""
    suffix = terms.literal("", None if language else datatype or type_of(values.type), language)[2:]

    def spelled(distinct: Any) -> Any:
        texts = _lexical(distinct)
        quoted = pc.binary_join_element_wise('"', texts, '"' + suffix, "")
        return _instead(quoted, texts, _ESCAPED, lambda text: _literal(text, suffix))

    return _by_distinct(values, spelled)


def from_template(template: Template, columns: dict[str, Any], length: int) -> Any:
    """Return a column of IRIs, null where a value is null; ``columns``: by their names in lower case."""
    parts: list[Any] = [f"<{template.texts[0]}"]
    for name, text in zip(template.columns, template.texts[1:], strict=True):
        parts += [_by_distinct(columns[name.lower()], _safe), text]
    parts[-1] += ">"
    joined = pc.binary_join_element_wise(*parts, "")
    assert len(joined) == length
    return joined


def _literal(text: str, suffix: str) -> str:
    """Return a literal with the given suffix after its text; "" for invalid text."""
    try:
        return terms.literal(text) + suffix
    except DataRefused:
        return ""


def _safe(distinct: Any) -> Any:
    texts = _lexical(distinct)
    return _instead(texts, texts, SAFE, encoded, matching=False)


def _instead(
    result: Any, texts: Any, pattern: str, spell: Callable[[str], str], *, matching: bool = True
) -> Any:
    """Return ``result`` with respelled texts at the positions that match a pattern, or do not."""
    matches = flags(pc.match_substring_regex(texts, pattern))
    places = np.flatnonzero(matches if matching else ~matches)
    if not len(places):
        return result
    anew = [spell(text) for text in texts_of(texts.take(pa.array(places)))]
    mask = np.zeros(len(texts), np.bool_)
    mask[places] = True
    return pc.replace_with_mask(result, pa.array(mask), pa.array(anew, result.type))


def texts_of(values: Any) -> list[str]:
    """Return texts of Spark, which does not validate its strings: invalid UTF-8 becomes surrogates."""
    try:
        found: list[str] = values.to_pylist()
    except UnicodeDecodeError:
        found = [value.decode("utf-8", "surrogateescape") for value in values.cast(pa.binary()).to_pylist()]
    return found


def _by_distinct(values: Any, spelled: Callable[[Any], Any]) -> Any:
    found = values.dictionary_encode()
    return spelled(found.dictionary).take(found.indices)


def _lexical(values: Any) -> Any:
    """Return the lexical forms of values that are not null."""
    types, kind = pa.types, values.type
    if types.is_string(kind):
        return values
    if types.is_large_string(kind) or types.is_integer(kind) or types.is_boolean(kind) or types.is_date(kind):
        return values.cast(pa.string())
    if types.is_floating(kind):
        return _instead(values.cast(pa.string()), values.cast(pa.string()), "^-?(nan|inf)$", _not_finite)
    if types.is_decimal(kind):
        texts = values.cast(pa.string())
        return _instead(texts, texts, "E", lambda text: format(Decimal(text), "f"))
    if types.is_timestamp(kind):
        return _moments(values)
    return pa.array([value.hex().upper() for value in values.to_pylist()], pa.string())


def _not_finite(text: str) -> str:
    return {"nan": "NaN", "-nan": "NaN", "inf": "INF", "-inf": "-INF"}[text]


def _moments(values: Any) -> Any:
    """Format timestamps, those with a zone in UTC, without trailing zeros of a fraction."""
    plain = values.cast(pa.timestamp("us"))
    texts = pc.strftime(plain, "%Y-%m-%dT%H:%M:%S")
    texts = pc.replace_substring_regex(texts, r"\.0+$", "")
    texts = pc.replace_substring_regex(texts, r"(\.[0-9]*[1-9])0+$", r"\1")
    return texts if values.type.tz is None else pc.binary_join_element_wise(texts, "Z", "")
