"""Filter expressions: random ones against another SPARQL engine, and the corners one by one."""

from __future__ import annotations

import random
import re

import pyoxigraph as ox
import pytest
from field_cases import field_case

from p2prdf.errors import QueryRefused
from p2prdf.rdf import compiled, expressions, filters, tokens, values
from p2prdf.rdf.expression_parser import parse_expression
from p2prdf.rdf.moments import ExpressionError
from p2prdf.rdf.query import Filter
from p2prdf.rdf.standing.conjunctive import parse_select

XSD = "http://www.w3.org/2001/XMLSchema#"
PROLOGUE = f"PREFIX xsd: <{XSD}> "


def value_of(expression: str, *terms: str) -> str | None:
    """Evaluate an expression over ?v0, ?v1 ... as Turtle-like terms; return a canonical term or None."""
    text = f"{PROLOGUE} {expression}"
    symbols, base = tokens.symbols(text, tokens.scan(text))
    numbers = {f"v{number}": number for number in range(len(terms))}
    spelled, variables = filters.spell(filters.prepare(text, symbols), numbers, base)
    evaluate = expressions.compile_value(parse_expression(spelled, variables)[0])
    try:
        found = evaluate([canonical(terms[number]) for number in variables])
    except (ExpressionError, ArithmeticError, ValueError):
        return None
    if not found.is_literal:
        return f"<{found.lexical}>"
    if found.language:
        return str(ox.Literal(found.lexical, language=found.language))
    return str(ox.Literal(found.lexical, datatype=ox.NamedNode(found.datatype)))


def canonical(term: str) -> str:
    turtle = f"@prefix xsd: <{XSD}> . <urn:s> <urn:p> {term} ."
    return str(next(iter(ox.parse(turtle, format=ox.RdfFormat.TURTLE))).object)


def with_truth_of_language_strings(expression: str) -> str:
    """Return an expression for an engine to which a language-tagged string has no effective boolean value.

    Conditions stand in «»; SPARQL 1.1, 17.2.2, says of plain literals with a tag that they are true unless empty.
    """
    while "«" in expression:
        expression = re.sub(
            "«([^«»]*)»", r'IF(isLITERAL(\1) && LANG(\1) != "", STRLEN(STR(\1)) > 0, \1)', expression
        )
    return expression


def theirs(expression: str, a: str, b: str) -> str | None:
    expression = with_truth_of_language_strings(expression)
    query = f"{PROLOGUE} SELECT ({expression} AS ?x) {{ VALUES (?v0 ?v1) {{ ({a} {b}) }} }}"
    (row,) = ox.Store().query(query)  # type: ignore[misc]
    return None if row["x"] is None else str(row["x"])


def by_value(term: str | None) -> str | None:
    """The engine's store writes numbers and dates in canonical forms; computed ones are compared so."""
    if term is None or not term.startswith('"'):
        return term
    store = ox.Store()
    store.update(f"INSERT DATA {{ <urn:s> <urn:p> {term} }}")
    return str(next(iter(store)).object)


# Terms on which the two engines mean the same.  Left out, and tested one by one below: NaN under
# an order, truth of ill-typed numbers, the order of booleans, lexical forms that are not canonical.
TERMS = [
    "1", "2", "-3", "0", "7", "1.5", "2.5", '"100"^^xsd:double', '"1.5"^^xsd:float', '"INF"^^xsd:double', '"abc"',
    '"ab"', '""', '"b"', '"abc"@en', '"b"@en', '"abc"@fr', '"x"^^xsd:date', '"q"^^<u:t>', '"r"^^<u:t>', "true",
    "<u:a>", "<http://x/b>", '"2020-01-01T00:00:00Z"^^xsd:dateTime', '"2020-01-01T00:00:00"^^xsd:dateTime',
    '"2020-01-02T05:06:07.5-05:00"^^xsd:dateTime', '"2020-01-01"^^xsd:date', '"2021-03-04Z"^^xsd:date',
    '"10:00:00"^^xsd:time', '"P1D"^^xsd:dayTimeDuration', '"P1DT12H"^^xsd:dayTimeDuration',
    '"P1Y"^^xsd:yearMonthDuration', '"P1M"^^xsd:duration', '"2020"^^xsd:gYear', '"en"', '"EN-us"', '"a.c"', '"1"',
    '"true"', '"2020-01-01"', '"-5.25"', '"1e3"',
]  # fmt: skip
ONE = [
    "STR", "LANG", "DATATYPE", "STRLEN", "UCASE", "LCASE", "ENCODE_FOR_URI", "ABS", "CEIL", "FLOOR", "ROUND", "YEAR",
    "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS", "TIMEZONE", "TZ", "MD5", "SHA1", "SHA256", "SHA384", "SHA512",
    "isIRI", "isURI", "isBLANK", "isLITERAL", "isNUMERIC", "IRI", "xsd:integer", "xsd:decimal", "xsd:double",
    "xsd:float", "xsd:string", "xsd:boolean", "xsd:dateTime", "xsd:date", "xsd:time", "!", "-", "+",
]  # fmt: skip
TWO = [
    "LANGMATCHES", "CONTAINS", "STRSTARTS", "STRENDS", "STRBEFORE", "STRAFTER", "STRDT", "STRLANG", "sameTerm",
    "REGEX", "SUBSTR", "CONCAT", "COALESCE",
]  # fmt: skip
SIGNS = ["=", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "&&", "||"]


def random_expression(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.15:
        return rng.choice(["?v0", "?v1", rng.choice(TERMS)])

    def inner() -> str:
        return random_expression(rng, depth - 1)

    def truth() -> str:
        return f"«{inner()}»"

    if kind < 0.45:
        function = rng.choice(ONE)
        if function == "!":
            return f"(! {truth()})"
        return f"({function} {inner()})" if function in "!-+" else f"{function}({inner()})"
    if kind < 0.6:
        return f"{rng.choice(TWO)}({inner()},{inner()})"
    if kind < 0.9:
        left, sign, right = inner(), rng.choice(SIGNS), inner()
        return f"(«{left}» {sign} «{right}»)" if sign in ("&&", "||") else f"({left} {sign} {right})"
    if kind < 0.95:
        return f"IF({truth()},{inner()},{inner()})"
    return f"({inner()} {rng.choice(['IN', 'NOT IN'])} ({inner()},{inner()}))"


KNOWN_DIFFERENCES = re.compile(
    r"[<>]=? |"  # their order is total on identical terms, and errs on booleans
    r"/ |"  # theirs errs on 0 / decimal
    r"\+|"  # theirs does not add a date to a duration
    r"TZ\("  # theirs gives a year's
)


@pytest.mark.parametrize(("seed", "depth", "count"), [(1, 1, 500), (2, 2, 120), (3, 3, 50)])
def test_random_expressions_have_the_values_of_another_engine(seed: int, depth: int, count: int) -> None:
    rng = random.Random(seed)
    compared = differing = 0
    for _ in range(count):
        expression, a, b = random_expression(rng, depth), rng.choice(TERMS), rng.choice(TERMS)
        if "?v" not in expression:
            continue
        try:
            expected = theirs(expression, a, b)
        except SyntaxError:  # it finds an error in constants alone
            continue
        found = value_of(expression.replace("«", "").replace("»", ""), a, b)
        compared += 1
        if found == expected or by_value(found) == by_value(expected):
            continue
        differing += 1
        assert KNOWN_DIFFERENCES.search(expression), (expression, a, b, expected, found)
    assert compared > count * 0.5
    assert differing <= compared * 0.02


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        # Three-valued logic.
        ("1/0 || true", "true"), ("1/0 || false", None), ("1/0 && false", "false"), ("1/0 && true", None),
        ("false || 1/0 || true", "true"), ("!(1/0)", None), ("!(?x && false)", "true"),
        # Effective boolean values, ill-typed ones included (SPARQL 1.1, 17.2.2).
        ('!"x"^^xsd:integer', "true"), ('!"x"^^xsd:boolean', "true"), ('!"NaN"^^xsd:double', "true"),
        ('!""', "true"), ('!"0"', "false"), ("!0.0", "true"), ("!<u:a>", None), ('!"2020"^^xsd:gYear', None),
        # A language tag takes nothing away from that; pyoxigraph 0.5 errs, Jena and rdflib do as the standard says.
        ('!"a"@en', "false"), ('!""@en', "true"), ('"a"@en && true', "true"), ('""@en || false', "false"),
        ('IF("a"@en-gb, 1, 2)', '"1"^^integer'), ('IF(""@en-gb, 1, 2)', '"2"^^integer'),
        ('xsd:boolean("true"@en)', None),
        # NaN equals nothing and is in no order.
        ('"NaN"^^xsd:double = "NaN"^^xsd:double', "false"), ('"NaN"^^xsd:double != 1', "true"),
        ('"NaN"^^xsd:double < 1', "false"), ('"NaN"^^xsd:double >= 1', "false"),
        # Booleans are ordered, terms of other kinds are not.
        ("false < true", "true"), ("true <= false", "false"), ("true < 1", None), ("<u:a> <= <u:a>", None),
        ('"a" < 1', None), ('"a"@en < "b"@en', "true"), ('"a"@en < "b"@fr', None),
        # Literals of unknown value.
        ('"x"^^<u:t> = "x"^^<u:t>', "true"), ('"x"^^<u:t> = "y"^^<u:t>', None), ('"x"^^<u:t> != "y"', None),
        ('"x"^^<u:t> = "x"@en', "false"), ('"x"^^<u:t> = <u:x>', "false"), ('"x"^^xsd:integer = 1', None),
        ('"300"^^xsd:byte = 300', None), ('"-1"^^xsd:unsignedInt = -1', None),
        # Datatypes and languages are of the term, as published.
        ('DATATYPE("1"^^xsd:byte) = xsd:byte', "true"), ('DATATYPE("1"^^xsd:byte + 0) = xsd:integer', "true"),
        ('DATATYPE("a"@en) = <http://www.w3.org/1999/02/22-rdf-syntax-ns#langString>', "true"),
        ('"a" = "a"^^xsd:string', "true"), ('sameTerm("a", "a"^^xsd:string)', "true"),
        ('"a"@EN = "a"@en', "true"), ('LANG("a"@EN) = "en"', "true"), ("sameTerm(1, 01)", "false"),
        ("STR(01)", '"01"'), ("STR(1 + 01)", '"2"'), ("STR(-01)", '"-01"'), ("1 -01", '"0"^^integer'),
        # Lexical forms of computed numbers are XPath's.
        ("STR(1.0 + 1)", '"2"'), ("STR(1/3)", '"0.333333333333333333"'), ("STR(1e0 + 1)", '"2"'),
        ("STR(1e6 * 1)", '"1.0E6"'), ("STR(1e5 * 1)", '"100000"'), ("STR(1e-7 * 1)", '"1.0E-7"'),
        ("STR(1.5e300 * 1)", '"1.5E300"'), ("STR(xsd:float(0.1))", '"0.1"'), ("STR(1/0e0)", '"INF"'),
        ("xsd:float(0.1) = 0.1e0", "false"), ("0.1 = 0.1e0", "true"), ("-1e0/0 = -(1e0/0)", "true"),
        ("100000000000000000000 * 100000000000000000000 = 10000000000000000000000000000000000000000", "true"),
        # Casts.
        ('xsd:integer(" 12 ")', '"12"^^integer'), ('xsd:integer("1.5")', None),
        ("xsd:integer(-1.5)", '"-1"^^integer'),
        ('xsd:integer("NaN"^^xsd:double)', None), ('xsd:integer("1"@en)', None),
        ("xsd:boolean(0e0)", "false"),
        ("xsd:decimal(0.1e0)", '"0.1"^^decimal'), ("xsd:decimal(1e-3)", '"0.001"^^decimal'),
        ('xsd:string(01)', '"1"'), ("xsd:string(<u:a>)", '"u:a"'), ("xsd:integer(true)", '"1"^^integer'),
        ('xsd:dateTime("2020-01-01"^^xsd:date)', '"2020-01-01T00:00:00"^^dateTime'),
        ('xsd:date("2020-01-01T23:00:00Z"^^xsd:dateTime)', '"2020-01-01Z"^^date'),
        ('xsd:time("2020-01-01T23:00:00Z"^^xsd:dateTime) = "23:00:00Z"^^xsd:time', "true"),
        ('xsd:yearMonthDuration("P1Y2D"^^xsd:duration)', '"P1Y"^^yearMonthDuration'),
        # Rounding.
        ("ROUND(-2.5)", '"-2"^^decimal'), ("ROUND(2.5e0)", '"3"^^double'), ("CEIL(-0.5e0)", '"-0"^^double'),
        ("FLOOR(-1.5)", '"-2"^^decimal'), ('ABS("-3"^^xsd:byte)', '"3"^^integer'),
        # Dates, times, durations.
        ('"2020-01-01T00:00:00"^^xsd:dateTime = "2020-01-01T00:00:00Z"^^xsd:dateTime', None),
        ('"2006-08-23"^^xsd:date != "2006-08-23Z"^^xsd:date', None),
        ('"2006-08-23+00:00"^^xsd:date = "2006-08-23"^^xsd:date', None),
        ('"2001-01-01Z"^^xsd:date != "2006-08-23"^^xsd:date', "true"),
        ('"2001-01-01"^^xsd:date != "2006-08-23"^^xsd:date', "true"),
        ('"2006-08-23T09:00:00+01:00"^^xsd:dateTime != "2006-08-23"^^xsd:date', "true"),
        ('"2020-01-01T00:00:00"^^xsd:dateTime < "2020-01-01T10:00:00Z"^^xsd:dateTime', None),
        ('"2020-01-01T00:00:00"^^xsd:dateTime < "2020-01-01T14:00:01Z"^^xsd:dateTime', "true"),
        ('"2020-01-01T12:00:00+01:00"^^xsd:dateTime = "2020-01-01T11:00:00Z"^^xsd:dateTime', "true"),
        ('"2019-12-31T24:00:00"^^xsd:dateTime = "2020-01-01T00:00:00"^^xsd:dateTime', "true"),
        ('"2020-02-30"^^xsd:date = "2020-02-30"^^xsd:date', "true"), ('YEAR("2020-02-30"^^xsd:date)', None),
        ('"-0001-01-01"^^xsd:date < "12020-01-01"^^xsd:date', "true"),
        ('"1950"^^xsd:gYear < "2020"^^xsd:gYear', "true"),
        ('"--02-29"^^xsd:gMonthDay < "--03-01"^^xsd:gMonthDay', "true"),
        ('"---31"^^xsd:gDay > "---30"^^xsd:gDay', "true"),
        ('YEAR("1950-02"^^xsd:gYearMonth)', '"1950"^^integer'),
        ('SECONDS("10:00:01.50"^^xsd:time)', '"1.5"^^decimal'),
        ('"2020-01-31"^^xsd:date + "P1M"^^xsd:yearMonthDuration', '"2020-02-29"^^date'),
        ('"2020-03-01"^^xsd:date - "2020-02-01"^^xsd:date', '"P29D"^^dayTimeDuration'),
        ('"P1D"^^xsd:dayTimeDuration + "2020-02-28T00:00:00Z"^^xsd:dateTime', '"2020-02-29T00:00:00Z"^^dateTime'),
        ('"23:30:00"^^xsd:time + "PT1H"^^xsd:dayTimeDuration', '"00:30:00"^^time'),
        ('"P1M"^^xsd:duration < "P32D"^^xsd:duration', "true"),
        ('"P1M"^^xsd:duration < "P30D"^^xsd:duration', None),
        ('"P1Y"^^xsd:duration = "P12M"^^xsd:yearMonthDuration', "true"),
        ('-"PT90M"^^xsd:dayTimeDuration', '"-PT1H30M"^^dayTimeDuration'),
        ('TIMEZONE("2020-01-01T00:00:00-08:30"^^xsd:dateTime)', '"-PT8H30M"^^dayTimeDuration'),
        ('TZ("2020-01-01T00:00:00"^^xsd:dateTime)', '""'),
        ('TZ("2020-01-01T00:00:00Z"^^xsd:dateTime)', '"Z"'),
        # Strings.
        ('SUBSTR("hello", 0, 3)', '"he"'), ('SUBSTR("a𝄞b", 2, 1)', '"𝄞"'), ('SUBSTR("hello", 9)', '""'),
        ('SUBSTR("hello", -5, 2)', '""'), ('STRAFTER("abc"@en, "z")', '""'),
        ('STRAFTER("abc"@en, "")', '"abc"@en'),
        ('STRBEFORE("abc"@en, "")', '""@en'), ('STRSTARTS("abc", "a"@en)', None), ('CONCAT()', '""'),
        ('CONCAT("a"@en, "b"@en)', '"ab"@en'), ('CONCAT("a"@en, "b")', '"ab"'), ('CONCAT("a", 1)', None),
        ('UCASE("ß")', '"SS"'), ('STRLANG("a", "EN")', '"a"@en'), ('STRLANG("a", "no language")', None),
        ('STRDT("x", xsd:integer)', '"x"^^integer'), ('STRDT("1"@en, xsd:integer)', None),
        ('IRI("http://a/b")', "<http://a/b>"), ('IRI("a b")', None), ('URI(<u:a>)', "<u:a>"),
        ('REPLACE("abcb"@en, "(b)", "[$1]")', '"a[b]c[b]"@en'), ('REGEX("a", "A", "i")', "true"),
        ("REGEX(1, \"1\")", None),
        ('LANGMATCHES("en-us", "EN")', "true"), ('LANGMATCHES("", "*")', "false"),
        ('LANGMATCHES("eng", "en")', "false"),
        # Forms.
        ("IF(1/0, 1, 2)", None), ("IF(true, 1, 1/0)", '"1"^^integer'),
        ("COALESCE(1/0, ?x, 3)", '"3"^^integer'),
        ("COALESCE()", None), ("BOUND(?x)", "false"), ("1 IN ()", "false"), ("1 NOT IN ()", "true"),
        ("1 IN (2, 1.0, 1/0)", "true"), ("1 IN (2, 1/0)", None), ("1 NOT IN (2, 1/0)", None),
        ('<u:a> IN (<u:b>, <u:a>)', "true"), ('"u:a" IN (<u:b>, <u:a>)', "false"),
        ('"x"^^<u:t> IN (1, 2)', None),
        ("isBLANK(<urn:bnode:p:b>)", "true"), ("isIRI(<urn:bnode:p:b>)", "false"),
        ("STR(<urn:bnode:p:b>)", None),
        ("<urn:bnode:p:b> = <urn:bnode:p:b>", "true"), ('isNUMERIC("x"^^xsd:integer)', "false"),
        ("1 + 2 * 3 - 4 / 2 = 5", "true"), ("1 - 2 - 3 = -4", "true"), ("2 -1 = 1", "true"),
        ("-(2) + 1 = -1", "true"),
    ],
)  # fmt: skip
def test_corners(expression: str, expected: str | None) -> None:
    if expected in ("true", "false"):
        expected = f'"{expected}"^^<{XSD}boolean>'
    elif expected is not None:
        expected = re.sub(r"\^\^(\w+)$", rf"^^<{XSD}\1>", expected)
    assert value_of(expression) == expected


@pytest.mark.parametrize(
    "text", ["?v0 = ", "?v0 ?v0", "SELECT", "EXISTS { ?a ?b ?c }", "RAND ( ) < 1", "<u:f> ( ?v0 )", "p:a", "( ?v0",
             "?v0 } ?a ?b ?c { ?v0", "BOUND ( 1 )", "REGEX ( ?v0 , \"(\" )", "! ! ?v0", "_:b = 1", "", "?v0 ) || ( ?v0",
             "STR ( )", "<http://www.w3.org/2001/XMLSchema#integer> ( ?v0 , 1 )"],
)  # fmt: skip
def test_text_from_elsewhere_that_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(QueryRefused):
        compiled.compile_filter(Filter(text, (0,)))


def test_a_compiled_filter_takes_its_variables_in_order_and_turns_errors_into_false() -> None:
    holds = compiled.compile_filter(Filter("?v3 < ?v7", (3, 7)))
    one, two = f'"1"^^<{XSD}integer>', f'"2"^^<{XSD}integer>'
    assert holds((one, two))
    assert not holds((two, one))
    assert not holds(("<u:a>", one))
    assert compiled.compile_filter(Filter("?v3 < ?v7", (3, 7))) is holds


def test_answers_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "RESULTS_MAX", 10)
    holds = compiled.compile_filter(Filter("STRLEN ( ?v0 ) > 3 && ?v0 != \"bound\"", (0,)))
    for number in range(1000):
        assert holds((f'"{number}"',)) == (number > 999)
        assert len(holds._results) <= 10
    long = '"' + "x" * 1000 + '"'
    assert holds((long,))
    assert (long,) not in holds._results


def test_list_of_constants_has_the_size_of_one() -> None:
    for number in range(1, 50):
        members = " , ".join(f'"{number}-{n}"' for n in range(number))
        found = Filter(f'?v{number} = "{number}" || ?v{number} IN ( {members} )', (number,))
        holds = compiled.compile_filter(found)
        assert holds((f'"{number}"',))
        assert holds((f'"{number}-0"',))
        assert not holds(('"z"',))
        assert parse_expression(found.text, found.variables)[1] == 9
    assert parse_expression('?v0 IN ( "a" , ?v0 , "b" )', (0,))[1] == 9


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("1 + 2 * 3 - 4", "((1 + (2 * 3)) - 4)"), ("1 - 2 - 3", "((1 - 2) - 3)"), ("8 / 4 * 2", "((8 / 4) * 2)"),
        ("! true && false", "((! true) && false)"), ("true || false && false", "(true || (false && false))"),
        ("1 + 1 = 2 && 3 > 2", "(((1 + 1) = 2) && (3 > 2))"), ("- 1 + 2", "((- 1) + 2)"),
        ("1 IN ( 1 ) = true", ""), ("1 = 1 = true", ""), ("1 < 2 IN ( true )", ""), ("! ! true", ""), ("- -1", None),
        ("1 NOT IN ( 2 , 3 ) && true", "((1 NOT IN (2, 3)) && true)"), ("! 1 IN ( 1 )", "((! 1) IN (1))"),
    ],
)  # fmt: skip
def test_operators_bind_as_in_the_grammar(text: str, grouped: str | None) -> None:
    """SPARQL 1.1, 19.8, rules 111 to 118; comparisons do not associate."""
    if grouped == "":
        with pytest.raises(QueryRefused):
            value_of(text)
    else:
        assert value_of(text) == (value_of(grouped) if grouped else canonical("1"))


@pytest.mark.parametrize(
    "text",
    [
        "STR(1, 2)", "SUBSTR('a')", "SUBSTR('a', 1, 1, 1)", "REGEX('a')", "IF(true, 1)", "CONCAT", "REPLACE('a', 'b')",
        "STRDT('a')", "BOUND((?v0))", "BOUND(?v0, ?v0)", "COALESCE(1,)", "COALESCE(, 1)", "COALESCE 1",
        "STR(DISTINCT 1)",
    ],
)  # fmt: skip
def test_function_with_a_wrong_number_of_arguments_is_refused(text: str) -> None:
    with pytest.raises(QueryRefused):
        value_of(text, "1")


def test_field_case_of_language_strings_as_conditions_is_right() -> None:
    folder = field_case("05-ebv-lang")
    query = parse_select((folder / "q.rq").read_text("utf-8"))
    test = compiled.compile_filter(query.filters[0])
    rows = ox.parse((folder / "eb.nt").read_bytes(), format=ox.RdfFormat.N_TRIPLES)
    assert [str(row.subject) for row in rows if test((str(row.object),))] == ["<urn:eb:a>", "<urn:eb:b>"]


def test_constants_of_filters_are_not_remembered_as_values_of_data():
    """Each one-time query may have constants of its own, which no data has."""
    before = values._decode_short.cache_info()
    for number in range(50):
        text = f'?v0 > {number} && ?v0 != "constant {number}" && ?v0 IN (<urn:constant:{number}>)'
        compiled.compile_filter(Filter(text, (0,)))
    assert values._decode_short.cache_info() == before
