"""Permissions files: their syntax, and the actions that they allow."""

from __future__ import annotations

import math

import numpy as np
import pytest

from p2prdf.errors import LocalProtocolError, NotAllowed
from p2prdf.rdf.dictionary import TermDictionary
from p2prdf.rdf.quads import DEFAULT
from p2prdf.rdf.reach import ANY, Reach
from p2prdf.rdf.standing.insertion import parse_insertion
from p2prdf.rdf.standing.query import parse_query
from p2prdf_node.permissions import ALL, Action, Permissions
from p2prdf_node.permissions_file import PermissionsFile, read_permissions

PLANT = """
[groups.readers]
may = ["subscribe", "query"]
read = ["default", "urn:plant:"]
triples_per_second = 100
queries_max = 2

[groups.fast]
triples_per_second = 1_000

[clients.press]
groups = ["readers", "fast"]
publish = ["urn:plant:press:"]
remove = ["<urn:plant:press:now>"]
queries_max = 7

[clients.narrow]
publish = ["default", "urn:any:"]
predicates = ["urn:ns:"]
subjects = ["urn:press:"]

[clients.gateway]
speaks_for = ["press", "bob"]

[clients.root]
may = ["subscribe", "query", "observe", "administer"]
publish = ["*"]
remove = ["*"]
read = ["*"]
speaks_for = ["*"]

[default]
may = ["observe"]
"""


def of(name: str, text: str = PLANT) -> Permissions:
    return read_permissions(text).of(name)


def test_a_client_has_the_permissions_of_its_section_and_its_groups() -> None:
    press = of("press")
    assert press.actions == {Action.PUBLISH, Action.REMOVE, Action.SUBSCRIBE, Action.QUERY}
    assert press.read.allows(DEFAULT)
    assert press.read.allows("<urn:plant:anything>")
    assert not press.read.allows("<urn:plan>")
    assert not press.read.allows(ANY)
    assert press.quotas.triples_per_second == 1000, "the largest of its groups'"
    assert press.quotas.queries_max == 7, "its own"
    assert press.quotas.subscriptions_max == math.inf


def test_a_client_without_a_section_has_the_default_and_without_that_nothing() -> None:
    assert of("somebody").actions == {Action.OBSERVE}
    assert of("somebody").who == "client somebody"
    nobody = of("somebody", "[clients.press]\nmay = ['query']")
    assert nobody.actions == frozenset()
    with pytest.raises(NotAllowed, match="client somebody may not subscribe or query"):
        nobody.check((Action.SUBSCRIBE, Action.QUERY))
    nobody.check(())


def test_acting_for_another_client_needs_permission() -> None:
    assert [of("gateway").may_speak_for(name) for name in ("press", "bob", "root")] == [True, True, False]
    assert of("root").may_speak_for("anybody")
    assert not of("press").may_speak_for("press")


# --- publications --------------------------------------------------------------------------------


class Rows:
    """Statements by their terms."""

    def __init__(self, *statements: tuple[str, ...]):
        self.dictionary = TermDictionary()
        columns = [self.dictionary.intern_all(column) for column in zip(*statements, strict=True)]
        self.s, self.p, self.o, *self.graph = (np.array(column, np.uint32) for column in columns)

    def check(self, permissions: Permissions, *, removed: bool = False) -> None:
        graph = self.graph[0] if self.graph else None
        permissions.check_rows(self.dictionary, self.s, self.p, self.o, graph, removed=removed)

    def refused(self, permissions: Permissions, *, removed: bool = False) -> str:
        with pytest.raises(NotAllowed) as caught:
            self.check(permissions, removed=removed)
        return str(caught.value)


def test_statements_are_published_into_the_graphs_that_are_named() -> None:
    press = of("press")
    allowed = [("<urn:s>", "<urn:p>", '"1"', f"<urn:plant:press:{n % 3}>") for n in range(50)]
    Rows(*allowed).check(press)
    Rows(allowed[0]).check(press)
    other = ("<urn:s>", "<urn:p>", '"2"', "<urn:plant:oven>")
    said = Rows(*allowed[:20], other, *allowed).refused(press)
    assert said == (
        'client press may not publish <urn:s> <urn:p> "2" in <urn:plant:oven>: it may in <urn:plant:press:...>'
    )
    assert "in the default graph" in Rows(*allowed[:3], (*other[:3], DEFAULT)).refused(press)
    assert "in the default graph" in Rows(("<urn:s>", "<urn:p>", '"1"')).refused(press)


def test_permission_to_publish_does_not_include_removal() -> None:
    press = of("press")
    now, later = (("<urn:s>", "<urn:p>", '"1"', f"<urn:plant:press:{name}>") for name in ("now", "now2"))
    Rows(now, later).check(press)
    Rows(now).check(press, removed=True)
    assert "may not remove <urn:s>" in Rows(now, later).refused(press, removed=True)


def test_predicates_and_subjects_narrow_the_graphs_of_their_section() -> None:
    narrow = of("narrow")
    fine = [("<urn:press:1>", "<urn:ns:p>", '"1"', "<urn:any:g>"), ("<urn:press:2>", "<urn:ns:q>", '"1"', DEFAULT)]
    Rows(*fine).check(narrow)
    Rows(fine[1][:3]).check(narrow)
    for place, wrong in enumerate(("<urn:oven:1>", "<urn:other:p>", None, "<urn:g>")):
        if wrong is not None:
            changed = tuple(wrong if at == place else term for at, term in enumerate(fine[0]))
            assert wrong in Rows(*fine, changed).refused(narrow)
    said = Rows(("<urn:oven>", "<urn:ns:p>", '"1"')).refused(narrow)
    assert said.endswith("with predicates <urn:ns:...> and with subjects <urn:press:...>")


def test_a_statement_may_be_allowed_by_any_section_but_by_one_of_them_as_a_whole() -> None:
    text = """
    [groups.a]
    publish = ["urn:a:"]
    predicates = ["urn:p:"]
    [groups.b]
    publish = ["urn:b:"]
    [clients.both]
    groups = ["a", "b"]
    """
    both = of("both", text)
    in_a, in_b = ("<urn:s>", "<urn:p:1>", '"1"', "<urn:a:g>"), ("<urn:s>", "<urn:q>", '"1"', "<urn:b:g>")
    Rows(in_a, in_b, in_a).check(both)
    assert "<urn:q>" in Rows(in_a, in_b, ("<urn:s>", "<urn:q>", '"1"', "<urn:a:g>")).refused(both)


def test_full_permissions_allow_everything() -> None:
    for permissions in (of("root"), ALL):
        Rows(("<urn:s>", "<urn:p>", '"1"', "<urn:g>"), ("<urn:s>", "<urn:p>", '"1"', DEFAULT)).check(permissions)
        permissions.check_stream("<urn:st>")
        permissions.check_query(parse_query("SELECT * { GRAPH ?g { ?s ?p ?o } }"))
        permissions.check((Action.QUERY,))


def test_streams_are_named_like_graphs() -> None:
    of("press").check_stream("<urn:plant:press:st>")
    with pytest.raises(NotAllowed, match="client press may not publish into the stream <urn:st>"):
        of("press").check_stream("<urn:st>")


# --- queries -------------------------------------------------------------------------------------


def refused(permissions: Permissions, group: str) -> str:
    with pytest.raises(NotAllowed) as caught:
        permissions.check_query(parse_query(f"SELECT * {{ {group} }}"))
    return str(caught.value)


def test_a_query_names_graphs_that_may_be_read() -> None:
    press = of("press")
    press.check_query(parse_query("SELECT * { ?s ?p ?o GRAPH <urn:plant:oven> { ?s ?q ?x } }"))
    said = refused(press, "?s ?p ?o GRAPH <urn:secret> { ?s <urn:q> ?x }")
    assert "the pattern GRAPH <urn:secret> {" in said
    assert "client press may not read <urn:secret>; it may read the default graph, <urn:plant:...>" in said
    assert "may not read all graphs (name one by its IRI)" in refused(press, "GRAPH ?g { ?s ?p ?o }")
    assert "may not read the default graph" in refused(of("narrow"), "?s ?p ?o")
    press.check_reach(Reach((DEFAULT, "<urn:plant:x>")))
    with pytest.raises(NotAllowed, match="client press may not read <urn:secret>"):
        press.check_reach(Reach((DEFAULT, "<urn:secret>")))


def test_a_rule_needs_to_publish_and_to_remove_in_the_whole_graph_it_concludes_into() -> None:
    def rule(graph: str):
        text = f"INSERT {{ GRAPH <{graph}> {{ ?x <urn:is> ?z }} }} WHERE {{ ?x <urn:is> ?y . ?y <urn:is> ?z }}"
        return parse_insertion(text)

    of("press").check_query(rule("urn:plant:press:now"))
    with pytest.raises(NotAllowed, match="may not publish into and remove from <urn:plant:press:later>"):
        of("press").check_query(rule("urn:plant:press:later"))
    text = "[clients.a]\nread = ['*']\npublish = ['urn:g']\nremove = ['urn:g']\npredicates = ['urn:']"
    with pytest.raises(NotAllowed, match="may not publish into and remove from <urn:g>"):
        of("a", text).check_query(rule("urn:g"))


# --- the file ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "complaint"), [
    ("[clients", "permissions: Expected ']'"),
    ("# nothing", "the file has no section; an empty section [default] permits nothing to anybody"),
    ("[roles.a]", "roles: there are sections clients.NAME, groups.NAME and default"),
    ("clients = 1", "clients: not a table"),
    ("[clients]\na = 1", "clients.a: not a section"),
    ("default = 1", "default: not a section"),
    ("[clients.'a b']", "clients.a b: not the name of a client"),
    ("[clients.a]\npublishes = []", "clients.a.publishes: unknown key"),
    ("[clients.a]\npublish = 'urn:g'", "clients.a.publish: not a list of texts"),
    ("[clients.a]\npublish = [1]", "clients.a.publish: not a list of texts"),
    ("[clients.a]\nread = ['g']", "clients.a.read: 'g' is not the beginning of an IRI"),
    ("[clients.a]\nread = ['urn:g>x']", "'urn:g>x' is not the beginning"),
    ("[clients.a]\nread = ['']", "'' is not the beginning"),
    ("[clients.a]\npredicates = ['default']", "clients.a.predicates: 'default' is not the beginning"),
    ("[clients.a]\nmay = ['publish']", "'publish' is none of subscribe, query, observe, administer; say which graphs"),
    ("[clients.a]\nmay = ['fly']", "clients.a.may: 'fly' is none of"),
    ("[clients.a]\ngroups = ['b']", "client a: there is no section groups.b"),
    ("[groups.a]\ngroups = ['a']", "groups.a: groups belong to no groups"),
    ("[clients.a]\nspeaks_for = ['a b']", "clients.a.speaks_for: 'a b' is neither"),
    ("[clients.a]\nqueries_max = 0", "clients.a.queries_max: 0 is not a positive number"),
    ("[clients.a]\nqueries_max = nan", "clients.a.queries_max: nan is not a positive number"),
    ("[clients.a]\nqueries_max = true", "clients.a.queries_max: True is not a positive number"),
    ("[clients.a]\nread = [" + "'urn:g'," * 1025 + "]", "1025 entries; at most 1024 are accepted"),
    ("a = " + "[" * 5000, "permissions: "),
])  # fmt: skip
def test_errors_in_a_permissions_file_are_named(text: str, complaint: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        read_permissions(text)
    assert complaint in str(caught.value)


async def test_a_file_is_read_again_and_a_bad_one_leaves_the_permissions_in_use(tmp_path) -> None:
    path = tmp_path / "permissions.toml"
    path.write_text("[clients.a]\nmay = ['query']\n")
    file = PermissionsFile(path)
    assert not await file.poll()
    path.write_text("[clients.a]\nmay = ['query', 'observe']\n")
    assert not await file.poll(), "it may be half written"
    assert await file.poll()
    assert not await file.poll()
    assert Action.OBSERVE in file.value.of("a").actions
    for bad in ("[clients.a]\nmay = ['fly']\n", None, "\ud800"):
        if bad is None:
            path.unlink()
        else:
            path.write_bytes(bad.encode("utf-8", "surrogatepass"))
        assert not [await file.poll(), await file.poll()][1]
        assert str(path) in file.status()["problem"]
        assert Action.OBSERVE in file.value.of("a").actions
    path.write_text("[clients.b]\nmay = ['query']\n")
    assert [await file.poll(), await file.poll()] == [False, True]
    assert file.status() == {"clients": 1, "renewed": 2, "problem": None}
    assert not file.value.of("a").actions


def test_a_bad_file_is_none_to_begin_with(tmp_path) -> None:
    with pytest.raises(LocalProtocolError, match="No such file"):
        PermissionsFile(tmp_path / "permissions.toml")
    (tmp_path / "large").write_bytes(b"#" * ((4 << 20) + 1))
    with pytest.raises(LocalProtocolError, match="more than 4194304 bytes"):
        PermissionsFile(tmp_path / "large")
