"""Prepare RDF/XML for the parser: remove reset languages and canonicalise XML literals.

pyoxigraph 0.5 refuses ``xml:lang=""``, which resets the language in XML, writes a default namespace twice into an XML
literal, and makes literals of datatype rdf:langString without a language.  Expat therefore reads the XML first, and
this module writes it again, element by element; memory holds one literal and the open elements:

- A property element with a reset language gets the datatype xsd:string, which a plain literal has.
- ``rdf:parseType="Literal"`` becomes text of the datatype rdf:XMLLiteral: exclusive canonical XML.
- ``rdf:datatype`` of rdf:langString beside a language is left out.

Entities of a document type are expanded within expat's limits on amplification; external entities are not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Final
from xml.parsers import expat
from xml.sax.saxutils import escape

from p2prdf.errors import DataRefused
from p2prdf.rdf.terms import LANG_STRING, RDF, XSD

__all__ = ["RDF_XML_DEPTH_MAX", "XML_LITERAL_CHARACTERS_MAX", "prepared"]

RDF_XML_DEPTH_MAX: Final = 1000
"""Deepest nesting of elements."""
XML_LITERAL_CHARACTERS_MAX: Final = 1 << 20
"""Longest XML literal, in characters."""

_CHUNK_BYTES: Final = 1 << 16
_XML: Final = "http://www.w3.org/XML/1998/namespace"
_QUOTED: Final = {'"': "&quot;", "\t": "&#x9;", "\n": "&#xA;", "\r": "&#xD;"}
_CR: Final = {"\r": "&#xD;"}
_OWN: Final = "p2prdf-rdf"
"""A prefix for RDF's namespace where the document has none."""
_SUBJECTS: Final = ("about", "ID", "nodeID", "type")
"""Attributes of node elements that are not literals."""
_NO_STRING: Final = ("datatype", "resource", "nodeID", "parseType")
"""Attributes of property elements with a value that is not a plain literal."""

_Attributes = list[tuple[str, str]]


def prepared(data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]) -> _Stream:
    """Return a stream of RDF/XML that pyoxigraph parses correctly.

    ``refuse`` makes the error for malformed XML.
    """
    return _Stream(data, refuse)


class _Stream:
    """A readable stream of the rewritten text."""

    def __init__(self, data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]):
        self._pieces = _Rewriter(data, refuse).pieces()
        self._rest = b""
        self.error: DataRefused | None = None
        """The error that ended the XML; the parser sees an early end of its input."""

    def read(self, size: int = -1) -> bytes:
        """Return at most ``size`` bytes, none at the end."""
        while not self._rest and self.error is None:
            try:
                piece = next(self._pieces, None)
            except DataRefused as error:
                self.error = error
                break
            if piece is None:
                break
            self._rest = piece
        end = len(self._rest) if size < 0 else size
        found, self._rest = self._rest[:end], self._rest[end:]
        return found


class _Element:
    """An open element: its language, its namespaces, and its start tag until that is written."""

    __slots__ = ("attributes", "inherits", "is_property", "language", "name", "namespaces", "shown")

    def __init__(
        self, name: str, attributes: _Attributes, namespaces: dict[str, str], language: str = "", inherits: str = "",
        *, is_property: bool = False,
    ):  # fmt: skip
        self.name = name
        self.attributes = attributes
        self.namespaces = namespaces
        self.language = language
        self.inherits = inherits
        """The language that the parser assumes for the element; empty for none."""
        self.is_property = is_property
        self.shown: dict[str, str] = {}


class _Rewriter:
    """Reads XML and writes it again."""

    def __init__(self, data: IO[bytes], refuse: Callable[[str, int | None], DataRefused]):
        self._data = data
        self._refuse = refuse
        self._out: list[str] = []
        self._open: list[_Element] = []
        self._held: _Element | None = None
        self._text: list[str] = []
        self._literal_depth = 0
        """Open elements within an XML literal, its property included; 0 outside of a literal."""
        self._literal_size = 0
        parser = expat.ParserCreate()
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.SkippedEntityHandler = self._skipped
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
                yield found
            if failed is not None:
                raise failed

    # --- events ------------------------------------------------------------------------------

    def _start(self, name: str, listed: list[str]) -> None:
        attributes = list(zip(listed[::2], listed[1::2], strict=True))
        if self._literal_depth:
            self._start_within(name, attributes)
            return
        self._flush_tag(leaf=False)
        above = self._open[-1] if self._open else None
        if len(self._open) >= RDF_XML_DEPTH_MAX:
            raise self._refuse(f"elements nest deeper than {RDF_XML_DEPTH_MAX}", self._line)
        namespaces = _declared(attributes, above.namespaces if above else {"xml": _XML})
        given = dict(attributes).get("xml:lang")
        language = (above.language if above else "") if given is None else given
        inherits = given or (above.inherits if above else "")
        kept = [(key, value) for key, value in attributes if key != "xml:lang" or value]
        element = _Element(name, kept, namespaces, language, inherits, is_property=self._expects_property(above))
        self._open.append(element)
        if self._of_rdf(element, "parseType") == "Literal":
            self._literal_depth = 1
            self._literal_size = 0
            self._drop(element, "parseType")
            self._type(element, f"{RDF}XMLLiteral")
            self._write_tag(element)
            return
        self._held = element

    def _end(self, name: str) -> None:
        if self._literal_depth > 1:
            self._literal_depth -= 1
            element = self._open.pop()
            self._literal(f"</{element.name}>")
            return
        self._literal_depth = 0
        self._flush_tag(leaf=True)
        self._open.pop()
        self._out.append(f"</{name}>")

    def _characters(self, text: str) -> None:
        if self._literal_depth:
            self._literal(escape(text, _CR))
        elif self._held is not None:
            self._text.append(text)
        else:
            self._out.append(escape(text, _CR))

    def _skipped(self, name: str, is_parameter: bool) -> None:
        if not is_parameter:
            reason = f"the entity &{name[:60]}; is not declared in the document, and external entities are not read"
            raise self._refuse(reason, self._line)

    def _instruction(self, target: str, data: str) -> None:
        if self._literal_depth:
            self._literal(f"<?{target} {data}?>" if data else f"<?{target}?>")

    # --- output ------------------------------------------------------------------------------

    @property
    def _line(self) -> int:
        return self._parser.CurrentLineNumber

    def _flush_tag(self, *, leaf: bool) -> None:
        """Write the pending start tag, once it is known whether the element has child elements."""
        element, self._held = self._held, None
        if element is None:
            return
        moved: _Attributes = []
        datatype = self._of_rdf(element, "datatype")
        if datatype == LANG_STRING and element.language:
            self._drop(element, "datatype")
        elif element.inherits and not element.language:
            values = [each for each in element.attributes if self._is_literal(element, each[0])]
            if not element.is_property:
                moved = values
                element.attributes = [each for each in element.attributes if each not in moved]
            elif values:
                reason = 'xml:lang="" beside attributes of a property: write the node as an element of its own'
                raise self._refuse(reason, self._line)
            elif leaf and all(self._of_rdf(element, each) is None for each in _NO_STRING):
                self._type(element, f"{XSD}string")
        self._write_tag(element)
        for key, value in moved:
            within = _Element(key, [], element.namespaces)
            self._type(within, f"{XSD}string")
            self._write_tag(within)
            self._out.append(f"{escape(value, _CR)}</{key}>")
        self._out += [escape(text, _CR) for text in self._text]
        self._text.clear()

    def _expects_property(self, above: _Element | None) -> bool:
        """Tell whether the child elements of an element are property elements rather than node elements."""
        if above is None or self._expanded(above, above.name) == f"{RDF}RDF":
            return False
        return not above.is_property or self._of_rdf(above, "parseType") == "Resource"

    def _is_literal(self, element: _Element, key: str) -> bool:
        """Tell whether an attribute is a property with a literal."""
        if key.startswith("xml") or ":" not in key:
            return False
        name = self._expanded(element, key)
        known = (*_SUBJECTS, "resource", "datatype", "parseType")
        return name not in {f"{RDF}{each}" for each in known}

    def _type(self, element: _Element, datatype: str) -> None:
        prefix = next((key for key, value in element.namespaces.items() if value == RDF and key), None)
        if prefix is None:
            prefix = _OWN
            element.attributes.append((f"xmlns:{_OWN}", RDF))
        element.attributes.append((f"{prefix}:datatype", datatype))

    def _write_tag(self, element: _Element) -> None:
        listed = "".join(f' {key}="{escape(value, _QUOTED)}"' for key, value in element.attributes)
        self._out.append(f"<{element.name}{listed}>")

    def _expanded(self, element: _Element, key: str) -> str:
        prefix, _, local = key.rpartition(":")
        if not prefix and key != element.name:
            return key  # an attribute without a prefix has no namespace
        return element.namespaces.get(prefix, "") + local

    def _of_rdf(self, element: _Element, local: str) -> str | None:
        wanted = f"{RDF}{local}"
        return next((value for key, value in element.attributes if self._expanded(element, key) == wanted), None)

    def _drop(self, element: _Element, local: str) -> None:
        wanted = f"{RDF}{local}"
        element.attributes = [each for each in element.attributes if self._expanded(element, each[0]) != wanted]

    # --- XML literals: exclusive canonical XML -----------------------------------------------

    def _start_within(self, name: str, attributes: _Attributes) -> None:
        above = self._open[-1]
        if len(self._open) >= RDF_XML_DEPTH_MAX:
            raise self._refuse(f"elements nest deeper than {RDF_XML_DEPTH_MAX}", self._line)
        element = _Element(name, [], _declared(attributes, above.namespaces))
        plain = [(key, value) for key, value in attributes if key != "xmlns" and not key.startswith("xmlns:")]
        used = {name.rpartition(":")[0], *(key.partition(":")[0] for key, _ in plain if ":" in key)} - {"xml"}
        element.shown = dict(above.shown)
        declared = []
        for prefix in sorted(used):
            namespace = element.namespaces.get(prefix, "")
            if element.shown.get(prefix, "") != namespace:
                element.shown[prefix] = namespace
                declared.append((f"xmlns:{prefix}" if prefix else "xmlns", namespace))
        ordered = sorted(plain, key=lambda each: self._order(element, each[0]))
        listed = "".join(
            f' {key}="{escape(value, _QUOTED).replace("&gt;", ">")}"' for key, value in (*declared, *ordered)
        )
        self._open.append(element)
        self._literal_depth += 1
        self._literal(f"<{name}{listed}>")

    @staticmethod
    def _order(element: _Element, key: str) -> tuple[str, str]:
        prefix, _, local = key.rpartition(":")
        return (element.namespaces.get(prefix, "") if prefix else "", local)

    def _literal(self, text: str) -> None:
        self._literal_size += len(text)
        if self._literal_size > XML_LITERAL_CHARACTERS_MAX:
            raise self._refuse(f"an XML literal of more than {XML_LITERAL_CHARACTERS_MAX} characters", self._line)
        self._out.append(escape(text, _CR))


def _declared(attributes: _Attributes, before: dict[str, str]) -> dict[str, str]:
    """Return the namespaces in force, by their prefixes; the default one has the empty prefix."""
    own = {
        key[6:]: value for key, value in attributes if key == "xmlns" or key.startswith("xmlns:")
    }  # "xmlns"[6:] is empty, too
    return {**before, **own} if own else before
