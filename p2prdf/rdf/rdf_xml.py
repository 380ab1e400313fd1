"""Prepare RDF/XML for the parser: remove reset languages and canonicalise XML literals.

pyoxigraph 0.5 refuses ``xml:lang=""``, which resets the language in XML, writes a default namespace twice into an XML
literal, and makes literals of datatype rdf:langString without a language.  Expat therefore reads the XML first, and
this module writes it again, element by element; memory holds one literal and the open elements:

- A property element with a reset language gets the datatype xsd:string, which a plain literal has.
- ``rdf:parseType="Literal"`` becomes text of the datatype rdf:XMLLiteral: exclusive canonical XML.
- ``rdf:datatype`` of rdf:langString beside a language is left out.

Entities of a document type are expanded within expat's limits on amplification; external entities are refused.

The new text declares the namespaces of each element at the element, so long namespaces make it far longer than the
XML, and the parser keeps the names and bases of all open elements.  Both are bounded.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import IO, Final, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape

from p2prdf.errors import DataRefused
from p2prdf.rdf.terms import LANG_STRING, RDF, TERM_BYTES_MAX, XSD

__all__ = [
    "OPEN_CHARACTERS_MAX", "PIECE_CHARACTERS_MAX", "RDF_XML_DEPTH_MAX", "XML_LITERAL_CHARACTERS_MAX", "prepared",
]  # fmt: skip

RDF_XML_DEPTH_MAX: Final = 1000
"""Deepest nesting of elements."""
XML_LITERAL_CHARACTERS_MAX: Final = 1 << 20
"""Longest XML literal, in characters."""
OPEN_CHARACTERS_MAX: Final = 8 << 20
"""Most characters of the names and bases of the open elements."""
PIECE_CHARACTERS_MAX: Final = 32 << 20
"""Most characters of new text from 64 KiB of XML; a literal of the largest size, all ``&``, has 20 MiB."""

_CHUNK_BYTES: Final = 1 << 16
_REMEDY: Final = "write shorter namespaces, or N-Triples"
_QUOTED: Final = {'"': "&quot;", "\t": "&#x9;", "\n": "&#xA;", "\r": "&#xD;"}
_CR: Final = {"\r": "&#xD;"}


class _Name(NamedTuple):
    """A name with its namespace; ``prefix``: as written."""

    uri: str
    local: str
    prefix: str = ""


_Attributes = dict[_Name, str]
_DATATYPE: Final = _Name(RDF, "datatype")
_VALUES: Final = ("datatype", "resource", "nodeID", "parseType")
"""Attributes of property elements with a value that is not a plain literal."""
_SUBJECTS: Final = ("about", "ID", "nodeID", "type")
"""Attributes of node elements that are not literals."""
_XML: Final = "http://www.w3.org/XML/1998/namespace"


def prepared(data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]) -> _Stream:
    """Return a stream of RDF/XML that pyoxigraph parses correctly.

    ``refuse`` makes the error for malformed XML.
    """
    return _Stream(data, refuse)


class _Stream:
    """A readable stream of the rewritten text."""

    def __init__(self, data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]):
        self._pieces = _Rewriter(data, refuse).pieces()
        self._rest = io.BytesIO()
        self.error: DataRefused | None = None
        """The error that ended the XML; the parser sees an early end of its input."""

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        while not (found := self._rest.read(size)) and self.error is None:
            try:
                piece = next(self._pieces, None)
            except DataRefused as error:
                self.error = error
                break
            if piece is None:
                break
            self._rest = io.BytesIO(piece)
        return found


class _Element(NamedTuple):
    """An open element.

    ``inherits``: the language that the parser assumes for it, empty for none.  ``base_length`` and ``held``: the
    characters of its base, and those of the names and bases of all elements up to it.
    """

    name: _Name
    attributes: _Attributes
    language: str
    inherits: str
    is_property: bool
    base_length: int
    held: int


class _Rewriter:
    """Reads XML and writes it again."""

    def __init__(self, data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]):
        self._data = data
        self._refuse = refuse
        self._out: list[str] = []
        self._out_size = 0
        self._open: list[_Element] = []
        self._held: _Element | None = None
        """An element whose start is not written yet: it depends on the presence of child elements."""
        self._text: list[str] = []
        self._text_size = 0
        self._shown: list[dict[str, str]] = []
        """By open element of an XML literal, its property included, the former namespaces of declared prefixes."""
        self._scope: dict[str, str] = {}
        """The namespaces that the open elements of an XML literal declare; empty for undeclared prefixes."""
        self._literal_size = 0
        parser = expat.ParserCreate(namespace_separator="}")
        parser.namespace_prefixes = True
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.SkippedEntityHandler = self._skipped
        parser.ExternalEntityRefHandler = self._external
        parser.ProcessingInstructionHandler = self._instruction
        self._parser = parser

    def pieces(self) -> Iterator[bytes]:
        """Yield the rewritten text.  Raises DataRefused, with the line, for malformed XML."""
        done = False
        while not done:
            chunk = self._data.read(_CHUNK_BYTES)
            done = not chunk
            failed: DataRefused | None = None
            try:
                self._parser.Parse(chunk, done)
            except expat.ExpatError as error:
                failed = self._refuse(f"malformed XML: {expat.ErrorString(error.code)}", error.lineno)
            except DataRefused as error:
                failed = error
            if self._out:
                found = "".join(self._out).encode()
                self._out.clear()
                self._out_size = 0
                yield found
            if failed is not None:
                raise failed

    # --- events ------------------------------------------------------------------------------

    def _start(self, spelled: str, listed: list[str]) -> None:
        name = _name(spelled)
        attributes = {_name(key): value for key, value in zip(listed[::2], listed[1::2], strict=True)}
        if len(self._open) + max(0, len(self._shown) - 1) >= RDF_XML_DEPTH_MAX:
            raise self._refused(f"elements nest deeper than {RDF_XML_DEPTH_MAX}")
        if self._shown:
            self._start_within(name, attributes)
            return
        self._write_held(leaf=False)
        above = self._open[-1] if self._open else None
        given = next((value for key, value in attributes.items() if key[:2] == (_XML, "lang")), None)
        language = (above.language if above else "") if given is None else given
        inherits = given or (above.inherits if above else "")
        attributes = {key: value for key, value in attributes.items() if key[:2] != (_XML, "lang") or value}
        base = next((value for key, value in attributes.items() if key[:2] == (_XML, "base")), None)
        base_length = (above.base_length if above else 0) if base is None else len(base)
        held = (above.held if above else 0) + len(name.uri) + len(name.local) + base_length
        if held > OPEN_CHARACTERS_MAX:
            reason = f"the names and bases of open elements have more than {OPEN_CHARACTERS_MAX} characters: {_REMEDY}"
            raise self._refused(reason)
        element = _Element(name, attributes, language, inherits, _expects_property(above), base_length, held)
        self._open.append(element)
        if _of_rdf(attributes, "parseType") == "Literal":
            typed = {**_without(attributes, "parseType"), _DATATYPE: f"{RDF}XMLLiteral"}
            self._write(_tag(name, typed))
            self._shown.append({})
            self._literal_size = 0
        else:
            self._held = element

    def _end(self, spelled: str) -> None:
        if self._shown:
            self._scope |= self._shown.pop()
            if self._shown:
                self._literal(f"</{_written(_name(spelled))}>")
                return
        self._write_held(leaf=True)
        self._open.pop()
        self._write(f"</{_own(_name(spelled))}>")

    def _characters(self, text: str) -> None:
        if self._shown:
            self._literal(escape(text, _CR))
        elif self._held is not None:
            self._text_size += len(text)
            if self._text_size > TERM_BYTES_MAX:
                raise self._refused(f"a literal of more than {TERM_BYTES_MAX} bytes")
            self._text.append(text)
        else:
            self._write(escape(text, _CR))

    def _skipped(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            reason = f"the entity &{name[:60]}; is not declared in the document, and external entities are not read"
            raise self._refused(reason)

    def _external(self, context: str, *_: str | None) -> int:
        name = context.rpartition("\f")[2]  # namespaces come first
        reason = f"the entity {name[:60]} is declared outside of the document, and external entities are not read"
        raise self._refused(reason)

    def _instruction(self, target: str, data: str) -> None:
        if self._shown:
            self._literal(f"<?{target} {data}?>" if data else f"<?{target}?>")

    def _refused(self, reason: str) -> DataRefused:
        return self._refuse(reason, self._parser.CurrentLineNumber)

    # --- output ------------------------------------------------------------------------------

    def _write_held(self, *, leaf: bool) -> None:
        """Write the start of the held element, once it is known whether the element has child elements."""
        element, self._held = self._held, None
        if element is None:
            return
        attributes, moved = element.attributes, dict[_Name, str]()
        if _of_rdf(attributes, "datatype") == LANG_STRING and element.language:
            attributes = _without(attributes, "datatype")
        elif element.inherits and not element.language:
            literals = {key: value for key, value in attributes.items() if _is_literal(key)}
            if not element.is_property:
                moved = literals
            elif literals:
                reason = 'xml:lang="" beside attributes of a property: write the node as an element of its own'
                raise self._refused(reason)
            elif leaf and all(_of_rdf(attributes, each) is None for each in _VALUES):
                attributes = {**attributes, _DATATYPE: f"{XSD}string"}
        self._write(_tag(element.name, {key: value for key, value in attributes.items() if key not in moved}))
        for key, value in moved.items():
            self._write(f"{_tag(key, {_DATATYPE: f'{XSD}string'})}{escape(value, _CR)}</{_own(key)}>")
        self._write("".join(escape(text, _CR) for text in self._text))
        self._text.clear()
        self._text_size = 0

    def _write(self, text: str) -> None:
        self._out_size += len(text)
        if self._out_size > PIECE_CHARACTERS_MAX:
            reason = f"{_CHUNK_BYTES} bytes expand to more than {PIECE_CHARACTERS_MAX} characters: {_REMEDY}"
            raise self._refused(reason)
        self._out.append(text)

    # --- XML literals: exclusive canonical XML -----------------------------------------------

    def _start_within(self, name: _Name, attributes: _Attributes) -> None:
        before: dict[str, str] = {}
        used = {name.prefix: name.uri, **{key.prefix: key.uri for key in attributes if key.prefix}}
        declared: dict[str, str] = {}
        for prefix in sorted(used.keys() - {"xml"}):
            if self._scope.get(prefix, "") != used[prefix]:
                before[prefix] = self._scope.get(prefix, "")
                self._scope[prefix] = used[prefix]
                declared[f"xmlns:{prefix}" if prefix else "xmlns"] = used[prefix]
        ordered = {_written(key): attributes[key] for key in sorted(attributes)}
        listed = "".join(
            f' {key}="{escape(value, _QUOTED).replace("&gt;", ">")}"' for key, value in (declared | ordered).items()
        )
        self._shown.append(before)
        self._literal(f"<{_written(name)}{listed}>")

    def _literal(self, text: str) -> None:
        self._literal_size += len(text)
        if self._literal_size > XML_LITERAL_CHARACTERS_MAX:
            raise self._refused(f"an XML literal of more than {XML_LITERAL_CHARACTERS_MAX} characters")
        self._write(escape(text, _CR))


def _name(spelled: str) -> _Name:
    """Return the name that expat spells as namespace, local name and prefix."""
    parts = spelled.split("}")
    return _Name("", spelled) if len(parts) == 1 else _Name(*parts)


def _written(name: _Name) -> str:
    """Return a name as in the document."""
    return f"{name.prefix}:{name.local}" if name.prefix else name.local


def _own(name: _Name) -> str:
    """Return the name of an element in the output."""
    return f"xml:{name.local}" if name.uri == _XML else f"e:{name.local}" if name.uri else name.local


def _tag(name: _Name, attributes: _Attributes) -> str:
    """Return a start tag, which declares all the prefixes that it uses."""
    uris = [uri for uri in dict.fromkeys((name.uri, *(key.uri for key in attributes))) if uri not in ("", _XML)]
    prefixes = {"": "", _XML: "xml:"}
    prefixes |= {uri: "e:" if uri == name.uri else f"a{number}:" for number, uri in enumerate(uris)}
    parts = [f'xmlns:{prefixes[uri][:-1]}="{escape(uri, _QUOTED)}"' for uri in uris]
    parts += [f'{prefixes[key.uri]}{key.local}="{escape(value, _QUOTED)}"' for key, value in attributes.items()]
    return f"<{' '.join([_own(name), *parts])}>"


def _expects_property(above: _Element | None) -> bool:
    """Tell whether the child elements of an element are property elements rather than node elements."""
    if above is None or above.name[:2] == (RDF, "RDF"):
        return False
    return not above.is_property or _of_rdf(above.attributes, "parseType") == "Resource"


def _is_literal(key: _Name) -> bool:
    """Tell whether an attribute is a property with a literal."""
    return key.uri not in ("", _XML) and (key.uri != RDF or key.local not in (*_VALUES, *_SUBJECTS))


def _of_rdf(attributes: _Attributes, local: str) -> str | None:
    return next((value for key, value in attributes.items() if key[:2] == (RDF, local)), None)


def _without(attributes: _Attributes, local: str) -> _Attributes:
    return {key: value for key, value in attributes.items() if key[:2] != (RDF, local)}
