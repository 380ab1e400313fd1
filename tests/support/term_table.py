"""Texts that are RDF terms, and texts that are none: one table for all entrances."""

from __future__ import annotations

from p2prdf.rdf import terms

__all__ = ["BAD_IRIS", "BAD_LITERALS", "GOOD", "RESPELLED"]

GOOD = [
    "<urn:a>", "<urn:>", "<urn:/>", "<urn:/a/b>", "<urn://a>", "<urn:a?b?c/d>", "<urn:a#>", "<urn:a#b?c/d>", "<a:?>",
    "<urn:%20>", "<urn:é>", "<urn:\U00010000#é>", "<http://e.org>", "<http://e.org:80/x>", "<http://e.org?q#f>",
    "<http://[::1]/>", "<http://u:p@h/>", "<http://é.org/>", "<mailto:a@b>", "<http://e.org//x>", "<urn:a'()*+,;=!$&>",
    '""', '"text"', '"a \\"quoted\\" \\\\ text\\n"', '"é \U0001f600"', '"hallo"@de', '"x"@en-gb', '"x"@de-1996',
    f'"3"^^<{terms.XSD}integer>', '"x"^^<urn:é>', f'"^^<{terms.XSD}string>"', f'"^^<{terms.LANG_STRING}>"@en',
    f'"x"^^<{terms.XSD}string2>', "<urn:" + "x" * 100_000 + ">", '"' + "x" * 100_000 + '"',
]  # fmt: skip

RESPELLED = {
    '"x"@EN': '"x"@en', '"x"@En-gB': '"x"@en-gb', f'"x"^^<{terms.XSD}string>': '"x"', '"\\u00e9"': '"é"',
    "<urn:\\u00e9>": "<urn:é>",
}  # fmt: skip
"""Terms in another spelling, with the canonical spelling."""

BAD_IRIS = [
    "<rel>", "<//x>", "<>", "<a>", "<1:a>", "<urn:a b>", "<urn:a\x01>", "<urn:a{>", "<urn:a}>", "<urn:a|>", "<urn:a^>",
    "<urn:a`>", "<urn:a\\b>", "<urn:a#b#c>", "<urn:%zz>", "<urn:%2>", "<http://a:x/>", "<http://[::1>", "<http://[x/>",
    "<urn:[>", "<urn:x", "<urn:a><urn:b>", '<urn:a">', "<urn:\x80>", "<urn:\ufdd0>",
]  # fmt: skip

BAD_LITERALS = [
    "x", '"', '"x', '"a"b"', '"a""b"', '"a\nb"', '"a\\x"', '"x"@', '"x"@-', '"x"@123456789', '"x"@en_us', '"x"@e n',
    '"x"^^', '"x"^^b', '"x"^^<>', '"x"^^<rel>', '"x"^^<urn:a#b#c>', f'"x"^^<{terms.LANG_STRING}>',
    '"' + "x" * (terms.TERM_BYTES_MAX + 1) + '"',
]  # fmt: skip
