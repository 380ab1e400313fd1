"""The console in a real browser, at a real gateway, in front of real nodes.

The browser is Debian's ``chromium`` (or another by one of its names); where there is none, its tests are skipped.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil

import pytest
from browser import Browser, BrowserProcess, program
from gateways import gateway

import p2prdf
from p2prdf.gateway.access import Permission, Token, _digest
from p2prdf.gateway.console import FILES, POLICY
from p2prdf.gateway.state import GATEWAY

needs_browser = pytest.mark.skipif(program() is None, reason="there is no browser (chromium) on this machine")
TOKEN = "reader-reader-reader"
HOSTILE = "<img src=x onerror=\"alert('literal')\"><script>alert('script')</script>"
_names = itertools.count()


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:console{next(_names)}:"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """Where the DevTools of a browser are; each test has pages and profiles of its own in it."""
    process = BrowserProcess(tmp_path_factory.mktemp("browser") / "profile")
    yield process.url
    process.close()


@contextlib.asynccontextmanager
async def shown(address, chromium, view="", **how):
    """Yield a page of the console at a gateway of its own, and that gateway's address."""
    async with gateway(address, **how) as (session, _), Browser(chromium) as browser:
        url = str(session._base_url).rstrip("/")
        page = await browser.page()
        await page.look(1440, 900)
        await page.go(f"{url}/console{view}")
        yield page, url
        # The browser logs the gateway's refusals; every other complaint is a defect of the page.
        assert [each for each in page.failures if "the server responded with a status of" not in each] == []
        assert page.dialogs == [], "what was published has run"
        origins = {each.split("://")[1].split("/")[0] for each in page.requested if "://" in each}
        assert origins == {url.split("://")[1]}, "nothing comes from elsewhere"


def rows(selector):
    return f"[...document.querySelectorAll({json.dumps(selector + ' tbody tr')})].map(row => row.innerText)"


# --- the ring ----------------------------------------------------------------------------------------------------


@needs_browser
async def test_the_ring_shows_all_nodes_and_marks_a_killed_node_as_missing(launcher, chromium):
    nodes = launcher.overlay(3, hello_seconds=1, drain_seconds=1)
    async with shown(nodes[0].address, chromium) as (page, _):
        await page.until("document.querySelectorAll('#nodes tbody tr').length === 3")
        await page.until("document.querySelectorAll('#ring-picture .node.here').length === 3")
        told = await page.value(rows("#nodes"))
        assert sorted(next(node.address for node in nodes if node.address in row) for row in told) == sorted(
            node.address for node in nodes
        )
        assert await page.text("#health") == "3 nodes"
        # Each at its place: clockwise from the top, as its key is part of the ring.
        places = await page.value(
            "Object.fromEntries([...document.querySelectorAll('#ring-picture .node')].map(node => [node.dataset.node,"
            " [node.querySelector('circle').cx.baseVal.value, node.querySelector('circle').cy.baseVal.value]]))"
        )
        for node in nodes:
            x, y = places[node.key]
            right, lower = int(node.key, 16) < 1 << 63, (1 << 62) < int(node.key, 16) < 3 << 62
            assert ((x > 200), (y > 200)) == (right, lower)
        nodes[2].kill()
        await page.until("document.querySelector('#ring-picture .node.missing')")
        assert await page.value("document.querySelector('#ring-picture .node.missing').dataset.node") == nodes[2].key
        await page.until("document.querySelector('#health').innerText === '2 nodes, 1 missing'")
        (row,) = [each for each in await page.value(rows("#nodes")) if nodes[2].address in each]
        assert "missing" in row


# --- subscriptions, answers, queries -----------------------------------------------------------------------------


@needs_browser
async def test_answers_appear_and_disappear_in_the_open_page(keeping_all, ns, chromium):
    query = f"SELECT ?who ?goals {{ ?who <{ns}goals> ?goals }}"
    one, two = ((f"<{ns}{name}>", f"<{ns}goals>", f'"{name}"') for name in ("a", "b"))
    async with (
        p2prdf.connect(keeping_all[2].address) as client,
        shown(keeping_all[0].address, chromium, "#query") as (page, _),
    ):
        await client.publish([one])
        await page.write("#query-text", query)
        await page.click("#query-follow")
        await page.until("document.querySelectorAll('#live-changes tbody tr').length === 1")
        await client.publish([two])
        await page.until("document.querySelectorAll('#live-changes tr.added').length === 2")
        assert f"{ns}b" in (await page.value(rows("#live-changes")))[0], "the newest comes first"
        await page.click("#live-pause")
        assert await page.text("#live-pause") == "Resume"
        await client.retract([one])
        await page.until("document.querySelector('#live-counts').innerText.includes('Came while paused')")
        assert await page.value("document.querySelectorAll('#live-changes tr.removed').length") == 0
        await page.click("#live-pause")
        await page.until("document.querySelectorAll('#live-changes tr.removed').length === 1")
        assert await page.value("document.querySelector('#live-counts').innerText.split(/\\s+/)") == [
            "True", "now", "1", "Came", "2", "Were", "withdrawn", "1",
        ]  # fmt: skip
        # The subscription stands in the list, with its plan.
        await page.value("location.hash = '#subscriptions'")
        await page.write("#subscriptions-filter", f"{ns}goals")
        # The whole row is one link, for the mouse and for keys.
        row = "document.querySelector('#subscriptions tbody tr')"
        await page.until(f"{row}?.lastElementChild")
        await page.value(f"{row}.lastElementChild.scrollIntoView(), 0")
        hit = f"{row}.lastElementChild.getBoundingClientRect()"
        hit = f"document.elementFromPoint({hit}.x + 5, {hit}.y + 5).closest('a')"
        link = await page.value(f"{hit}?.getAttribute('href')")
        key = await page.value(f"{row}.querySelector('a').dataset.key")
        assert link == f"#subscriptions/{key}"
        assert await page.value(f"{row}.querySelectorAll('a, button').length") == 1
        await page.value(f"{row}.querySelector('a').focus(), 0")
        await page.press("Enter")
        await page.until("document.querySelector('#subscription .chain')")
        assert await page.value("location.hash") == link
        assert await page.value(f"{row}.querySelector('a').ariaCurrent") == "true"
        assert f"?who <{ns}goals> ?goals" in await page.text("#subscription .chain .pattern")
        assert await page.value("document.querySelectorAll('#subscription .stop').length") >= 1
        number = await page.text("#subscription h2 .mono")
        told = await client.explain(number)
        step = told["parts"][0]["steps"][0]
        shown_ = await page.text("#subscription .chain")
        assert step["keys"][0] in shown_
        assert all(node in shown_ for node in step["nodes"])
        # Stopped, it is gone at once, and not when its lease has run out.
        await page.click("#live-stop")
        await page.until(f"!document.querySelector('[data-key=\"{number}\"]')")
        with pytest.raises(p2prdf.SubscriptionGone):
            await client.explain(number)


@pytest.mark.long
@needs_browser
async def test_a_followed_query_goes_on_when_the_connection_breaks(keeping_all, ns, chromium):
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        shown(keeping_all[0].address, chromium, "#query") as (page, _),
    ):
        await page.value(
            "window.sockets = [], window.WebSocket = class extends WebSocket"
            " { constructor(...given) { super(...given); sockets.push(this) } }, 0"
        )
        await page.write("#query-text", f"SELECT ?o {{ <{ns}s> <{ns}p> ?o }}")
        await page.click("#query-follow")
        for number in range(4):
            await client.publish([(f"<{ns}s>", f"<{ns}p>", f'"{number}"')])
            await page.until(f"document.querySelectorAll('#live-changes tr.added').length === {number + 1}")
            await page.value("sockets.at(-1).close(), 0")
            await page.until(f"sockets.length === {number + 2} && sockets.at(-1).readyState === 1")
        await client.publish([(f"<{ns}s>", f"<{ns}p>", '"last"')])
        await page.until("document.querySelector('#live-changes').innerText.includes('last')")
        assert len(await page.value(rows("#live-changes"))) == 5, "each once"


@needs_browser
async def test_a_query_is_run_and_its_errors_are_shown_at_their_place(keeping_all, ns, chromium):
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        shown(keeping_all[0].address, chromium, "#query") as (page, _),
    ):
        await client.publish([(f"<{ns}a>", f"<{ns}p>", f'"{number}"@en') for number in range(3)])
        await page.write("#query-text", f"SELECT ?o {{ <{ns}a> <{ns}p> ?o }}")
        await page.press("Enter", ctrl=True)
        await page.until("document.querySelectorAll('#query-result tbody tr').length === 3")
        assert "3 solutions" in await page.text("#query-result")
        await page.write("#query-text", f"ASK {{ <{ns}a> <{ns}p> 7 }}")
        await page.click("#query-run")
        await page.until("document.querySelector('#query-result').innerText.startsWith('No')")
        await page.write("#query-text", f"CONSTRUCT {{ ?s <{ns}q> ?o }} {{ ?s <{ns}p> ?o }}")
        await page.click("#query-run")
        await page.until("document.querySelector('#query-result .triples')?.innerText.split('\\n').length === 3")
        await page.click("#query-explain")
        await page.until("document.querySelector('#query-result .findings')")
        assert await page.text("#query-result .findings") == "every pattern matches some triples"
        bad = f"SELECT ?o\n{{ <{ns}a> <{ns}p> ?o .\n  FILTR(?o > 1) }}"
        await page.write("#query-text", bad)
        for button in ("#query-run", "#query-explain", "#query-follow"):
            await page.value("document.querySelector('#query-error').replaceChildren()")
            await page.click(button)
            await page.until("document.querySelector('#query-error mark')")
            mark = "document.querySelector('#query-error mark')"
            assert await page.value(f"[{mark}.innerText, {mark}.dataset.column, {mark}.parentNode.dataset.line]") == [
                "FILTR", "3", "3",
            ]  # fmt: skip
            chosen = "document.querySelector('#query-text')"
            assert await page.value(f"{chosen}.value.slice({chosen}.selectionStart, {chosen}.selectionEnd)") == "FILTR"
            assert await page.value(f"document.activeElement === {chosen} && {chosen}.ariaInvalid") == "true"
            assert await page.value(
                "[document.querySelector('#query-result').innerText, document.querySelector('#live').hidden]"
            ) == ["", True], "nothing of an earlier query is left"


@needs_browser
async def test_a_result_has_pages_and_is_downloaded_in_the_format_of_a_button(keeping_all, ns, chromium, tmp_path):
    count = 250
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        shown(keeping_all[0].address, chromium, "#query") as (page, _),
    ):
        await client.publish([(f"<{ns}a>", f"<{ns}p>", f'"{number:03}"') for number in range(count)])
        await page.write("#query-text", f"SELECT ?o {{ <{ns}a> <{ns}p> ?o }} ORDER BY ?o")
        await page.click("#query-run")
        first = "document.querySelector('#query-result tbody .term')?.innerText"
        for shown_, button in (("000", None), ("100", "Next"), ("200", "Next"), ("100", "Previous")):
            if button:
                await page.click(f'#query-result [data-key="{button}"]')
            await page.until(f"{first} === '{shown_}'")
        assert "101 to 200 of 250" in await page.text("#query-result .pages")
        await page.allow_downloads(tmp_path)
        texts = {}
        for query, endings in (
            (None, ("csv", "tsv", "json", "xml")),
            (f"CONSTRUCT WHERE {{ <{ns}a> <{ns}p> ?o }}", ("nt", "ttl", "jsonld", "rdf")),
        ):
            if query:
                await page.write("#query-text", query)
                await page.click("#query-run")
                await page.until("document.querySelector('#query-result .triples')")
            for number, ending in enumerate(endings, 2):
                await page.click(f"#query-result .downloads :nth-child({number})")
                file = tmp_path / f"result.{ending}"
                async with asyncio.timeout(30):
                    while not file.exists() or not file.read_text():
                        await asyncio.sleep(0.02)
                texts[ending] = file.read_text()
        assert texts["csv"].split() == ["o", *(f"{number:03}" for number in range(count))]
        assert len(json.loads(texts["json"])["results"]["bindings"]) == count
        assert len(texts["nt"].splitlines()) == count
        assert all("249" in text for text in texts.values())


@needs_browser
async def test_terms_of_any_kind_are_shown_as_text_once_and_live(keeping_all, ns, chromium):
    """Triple terms, directions, markup, direction marks; none of them becomes an element or stops the page."""
    markup = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    written = [
        f"<{ns}s> <{ns}p> <<( <{ns}a> <{ns}b> <<( <{ns}c> <{ns}d> {json.dumps(markup)} )>> )>>",
        f'<{ns}s> <{ns}p> "shalom"@he--rtl', f"<{ns}s> <{ns}p> {json.dumps(markup)}",
        f'<{ns}s> <{ns}p> "\u202egnp.evil"', f"<{ns}s> <{ns}p> <javascript:alert(3)>",
    ]  # fmt: skip
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        shown(keeping_all[0].address, chromium, "#query") as (page, _),
    ):
        await client.update(f"INSERT DATA {{ {' . '.join(written)} }}")
        await page.write("#query-text", f"SELECT ?o {{ <{ns}s> <{ns}p> ?o }}")
        for button, place in (("#query-run", "#query-result"), ("#query-follow", "#live-table")):
            if place == "#live-table":
                await page.value("document.querySelector('#query-since').value = 'beginning'")
            await page.click(button)
            await page.until(f"document.querySelectorAll('{place} tbody tr').length === {len(written)}")
            told = await page.text(place)
            assert f"<<( {ns}a {ns}b <<( {ns}c {ns}d {markup} )>> )>>" in " ".join(told.split())
            assert "shalom @he--rtl" in told
            assert told.count(markup) >= 2
            assert await page.value(f"document.querySelectorAll('{place} :is(img, script, a)').length") == 0
            isolated = f"getComputedStyle(document.querySelector('{place} .term')).unicodeBidi"
            assert await page.value(isolated) == "isolate"
        assert page.failures == page.dialogs == []


@needs_browser
async def test_the_live_table_holds_the_solutions_that_are_true_now(keeping_all, ns, chromium):
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        shown(keeping_all[0].address, chromium, "#query") as (page, _),
    ):
        triples = [(f"<{ns}{number % 2}>", f"<{ns}p>", f'"{number}"') for number in range(3)]
        await client.publish(triples)
        await page.write("#query-text", f"SELECT ?s {{ ?s <{ns}p> ?o }}")
        await page.click("#query-follow")
        cells = (
            "[...document.querySelectorAll('#live-table tbody tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.innerText).join(' ')).sort().join()"
        )
        await page.until(f"{cells} === '{ns}0 2,{ns}1 1'")
        await client.retract(triples[:2])
        await page.until(f"{cells} === '{ns}0'")
        assert await page.value("document.querySelectorAll('#live-changes tbody tr').length") == 5
        await page.click("#live-stop")


@needs_browser
async def test_the_editor_has_colours_and_completes_prefixes_with_their_declarations(keeping_all, chromium):
    async with shown(keeping_all[0].address, chromium, "#query") as (page, _):
        await page.write("#query-text", "# none\nSELECT ?s { ?s a <urn:c> ; x:p 'foaf' . ?s fo")
        colours = (
            "[...document.querySelectorAll('#query-colours span')].map((each) => each.className.slice(3)).join(' ')"
        )
        assert await page.value(colours) == (
            "comment keyword variable variable keyword iri prefixed string variable word"
        )
        value = "document.querySelector('#query-text').value"
        assert await page.value(f"document.querySelector('#query-colours').textContent === {value} + '\\n'")
        listed = "document.querySelector('#query-completions')"
        assert "foaf:" in await page.text("#query-completions li[aria-selected=true]")
        box, field = [
            await page.value(f"(({{ x, y, bottom }}) => [x, y, bottom])({each}.getBoundingClientRect())")
            for each in (listed, "document.querySelector('#query-text')")
        ]
        assert field[0] < box[0]
        assert field[1] < box[1] < field[2], "the list is at the word"
        await page.press("Enter")
        foaf = "PREFIX foaf: <http://xmlns.com/foaf/0.1/>\n"
        await page.until(f"{value}.startsWith({json.dumps(foaf)})")
        await page.send("Input.insertText", text="name ?n . ?s skos:")
        assert "skos:" in await page.text("#query-completions li")
        await page.press("Escape")
        assert await page.value(f"{listed}.hidden")
        await page.send("Input.insertText", text="note 'x' }")
        assert (await page.value(value)).endswith("?s foaf:name ?n . ?s skos:note 'x' }")
        await page.write("#query-text", "PREFIX xs")
        await page.press("Tab")
        assert await page.value(value) == "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>"
        await page.write("#query-text", "SELECT '''foaf")
        assert await page.value(f"{listed}.hidden"), "not in a string"


@needs_browser
async def test_an_update_is_executed_after_its_confirmation_if_the_token_allows_it(keeping_all, ns, chromium):
    reader, both = (Token(frozenset(each)) for each in ([Permission.READ], Permission))
    known = {_digest(TOKEN): reader, _digest("writer-writer-writer"): both}
    text = f"INSERT DATA {{ <{ns}a> <{ns}p> 1, 2 }}"
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        shown(keeping_all[0].address, chromium, "#query", tokens=known) as (page, url),
    ):
        dialog = "document.querySelector('#update-dialog').open"

        async def use(token):
            await page.until("document.querySelector('#token-dialog').open")
            await page.write("#token-text", token)
            await page.press("Enter")
            await page.until("!document.querySelector('#token-dialog').open")

        async def count():
            return len((await client.query(f"SELECT ?o {{ <{ns}a> <{ns}p> ?o }}")).rows)

        await use(TOKEN)
        await page.write("#query-text", text)
        assert await page.text("#query-run") == "Update …"
        assert await page.value("document.querySelector('#query-follow').disabled")
        await page.click("#query-run")
        await page.until("document.querySelector('#query-error').innerText.includes('lacks the permission to write')")
        assert not await page.value(dialog)
        await page.click("#token-open")
        await use("writer-writer-writer")
        for leave in ("#update-cancel", None):
            await page.value("document.querySelector('#query-text').focus()")
            await page.press("Enter", ctrl=True)
            await page.until(dialog)
            assert await page.text("#update-text") == text
            assert await page.text("#update-host") in url
            if leave:
                await page.click(leave)
            else:
                await page.press("Escape")
            await page.until(f"!{dialog}")
            await page.until("document.querySelector('#query-result').innerText === ''")
        assert await count() == 0
        await page.click("#query-run")
        await page.until(dialog)
        await page.click("#update-confirm")
        done = "2 statements inserted, 0 deleted"
        await page.until(f"document.querySelector('#query-result').innerText.startsWith('{done}')")
        assert await count() == 2
        await page.write("#query-text", "ASK { }")
        assert await page.text("#query-run") == "Run once"


@needs_browser
async def test_iris_are_shortened_by_the_prefixes_of_their_query(keeping_all, ns, chromium):
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        shown(keeping_all[0].address, chromium, "#query") as (page, _),
    ):
        await client.publish([
            (f"<{ns}a>", f"<{ns}p>", f'"7"^^<{ns}int>'), (f"<{ns}a/b>", f"<{ns}p>", f"<{ns}c.d>")
        ])  # fmt: skip
        await page.write("#query-text", f"# PREFIX no: <{ns}>\nPREFIX x: <{ns}> SELECT ?s ?o {{ ?s x:p ?o }}")
        for button, place in (("#query-run", "#query-result"), ("#query-follow", "#live-changes")):
            await page.click(button)
            await page.until(f"document.querySelectorAll('{place} tbody tr').length === 2")
            cells = f"[...document.querySelectorAll('{place} .term')]"
            assert sorted(await page.value(f"{cells}.map((each) => each.innerText)")) == [
                "7 ^^x:int", f"{ns}a/b", "x:a", "x:c.d",
            ]  # fmt: skip
            assert f"{ns}c.d" in await page.value(f"{cells}.map((each) => each.title)"), "the whole IRI is its title"
        assert await page.text("#query-result") == ""
        await page.click("#live-stop")
        await page.click("#query-run")
        await page.until("document.querySelectorAll('#query-result tbody tr').length === 2")
        assert await page.value("document.querySelector('#live').hidden")


@needs_browser
async def test_hostile_terms_are_shown_as_text_and_never_run(keeping_all, ns, chromium):
    bad = f"{ns}x%3Cimg%20src=x%20onerror=alert(1)%3E'javascript:alert(2)"
    literal = json.dumps(HOSTILE)
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        shown(keeping_all[0].address, chromium, "#query") as (page, _),
    ):
        await client.publish([(f"<{bad}>", f"<{ns}p>", literal), (f"<{bad}>", f"<{ns}p>", f"{literal}@en")])
        await page.write("#query-text", f"SELECT ?s ?o {{ ?s <{ns}p> ?o }}")
        await page.click("#query-run")
        await page.until("document.querySelectorAll('#query-result tbody tr').length === 2")
        assert HOSTILE in (await page.text("#query-result tbody")), "it is there, as it is"
        await page.click("#query-follow")
        await page.until("document.querySelectorAll('#live-changes tbody tr').length === 2")
        await page.write("#query-text", f"CONSTRUCT WHERE {{ ?s <{ns}p> ?o }}")
        await page.click("#query-run")
        await page.until("document.querySelector('.triples')")
        # In a plan, in the list of subscriptions, and in the text of a refusal.
        query = f"SELECT ?s {{ ?s <{ns}p> {literal} . ?s ?p <{bad}> FILTER(?p != {literal}) }}"
        standing = await client.subscribe(query)
        await page.write("#query-text", f"SELECT ?s {{ ?s <{ns}p> {literal} }}")
        await page.click("#query-explain")
        await page.until("document.querySelector('#query-result .pattern')?.innerText.includes('onerror')")
        await page.write("#query-text", f"SELECT ?s {{ ?s <{ns}p> {HOSTILE} }}")
        await page.click("#query-run")
        await page.until("document.querySelector('#query-error .problem')")
        await page.value("location.hash = '#subscriptions'")
        await page.until(f"document.querySelector('[data-key=\"{standing.id:016x}\"]')")
        await page.click(f'[data-key="{standing.id:016x}"]')
        await page.until("document.querySelector('#subscription .pattern')?.innerText.includes('onerror')")
        active = "'main img, main script, main a:not(.row-link), main iframe'"
        assert await page.value(f"document.querySelectorAll({active}).length") == 0
        # If a part of the page took it for markup, the browser would still not run it.
        markup = "document.body.insertAdjacentHTML('beforeend', '<b>x</b>')"
        tried = f"(() => {{ try {{ {markup} }} catch (error) {{ return error.name }} }})()"
        assert await page.value(tried) == "TypeError"
        await standing.unsubscribe()
        page.failures = [each for each in page.failures if "TrustedHTML" not in each]


# --- permissions, and the page for each of them ----------------------------------------------------------------


@needs_browser
async def test_without_a_token_nothing_is_shown_and_a_token_stays_in_its_tab(keeping_all, chromium):
    reader, writer = (Token(frozenset({permission})) for permission in (Permission.READ, Permission.WRITE))
    known = {_digest(TOKEN): reader, _digest("writer-writer-writer"): writer}
    async with shown(keeping_all[0].address, chromium, tokens=known) as (page, url):
        await page.until("document.querySelector('#token-dialog').open")
        assert await page.text("#health") == "Token needed"
        assert await page.value("document.querySelectorAll('#nodes tbody tr').length") == 0
        for wrong, told in (("no-such-token-here", "is not known"), ("writer-writer-writer", "permission to read")):
            await page.write("#token-text", wrong)
            await page.press("Enter")
            await page.until(f"document.querySelector('#token-why').innerText.includes({json.dumps(told)})")
        await page.write("#token-text", TOKEN)
        await page.press("Enter")
        await page.until("document.querySelectorAll('#nodes tbody tr').length === 5")
        assert not await page.value("document.querySelector('#token-dialog').open")
        assert TOKEN not in " ".join(page.requested), "it is in no address"
        assert await page.value("[Object.keys(localStorage).length, document.cookie]") == [0, ""]
        await page.value("location.hash = '#query'")
        await page.write("#query-text", "ASK { <urn:no> <urn:such> <urn:thing> }")
        await page.click("#query-follow")
        await page.until("document.querySelector('#live-state').innerText === 'following'")
        await page.go(f"{url}/console?again")
        await page.until("document.querySelectorAll('#nodes tbody tr').length === 5")
        other = await page._browser.page(f"{url}/console")
        await other.until("document.querySelector('#token-dialog').open")


@pytest.mark.long
@needs_browser
async def test_keys_are_enough_and_all_fields_have_names(keeping_all, chromium):
    async with shown(keeping_all[0].address, chromium) as (page, _):
        await page.until("document.querySelectorAll('#nodes tbody tr').length === 5")
        reached = []
        for _ in range(8):
            await page.press("Tab")
            reached.append(await page.value("document.activeElement.innerText"))
            assert await page.value("getComputedStyle(document.activeElement).outlineStyle") == "solid", reached
        assert [each.split()[0] for each in reached[:5]] == ["Skip", "Ring", "Subscriptions", "Query", "Token"]
        await page.value("document.querySelector('nav a[href=\"#query\"]').focus()")
        await page.press("Enter")
        await page.until("!document.querySelector('#view-query').hidden")
        assert await page.value("document.querySelector('nav [aria-current=page]').innerText") == "Query"
        nodes = (await page.send("Accessibility.getFullAXTree"))["nodes"]
        for node in nodes:
            role = node.get("role", {}).get("value")
            if role in ("button", "textbox", "searchbox", "combobox", "link", "image", "region", "dialog", "table"):
                assert node.get("name", {}).get("value"), f"a {role} without a name"


@pytest.mark.long
@needs_browser
@pytest.mark.parametrize("width", [390, 1440])
async def test_pages_fit_their_screen_and_their_colours_can_be_read(keeping_all, ns, chromium, width):
    """Texts have a contrast of 4.5 to their background, in light and dark mode; nothing reaches over the edge."""
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        shown(keeping_all[0].address, chromium) as (page, _),
    ):
        await client.publish([(f"<{ns}{'long' * 60}>", f"<{ns}p>", json.dumps("unbroken" * 60))])
        standing = await client.subscribe(f"SELECT ?s {{ ?s <{ns}p> ?o . ?o <{ns}{'q' * 90}> ?x }}")
        for view, ready in (
            ("ring", "document.querySelectorAll('#nodes tbody tr').length === 5"),
            ("subscriptions", f"document.querySelector('[data-key=\"{standing.id:016x}\"]')"),
            ("query", "document.querySelector('#query-text')"),
        ):
            await page.value(f"location.hash = '#{view}'")
            await page.until(ready)
            if view == "subscriptions":
                await page.click(f'[data-key="{standing.id:016x}"]')
                await page.until("document.querySelector('#subscription .chain')")
            if view == "query":
                await page.write("#query-text", f"SELECT * {{ ?s <{ns}p> ?o }}")
                await page.click("#query-run")
                await page.until("document.querySelector('#query-result table')")
            for dark in (False, True):
                await page.look(width, 844, dark=dark)
                assert await page.value("document.documentElement.scrollWidth") == width, view
                assert await page.value(_LOW_CONTRAST) == [], (view, dark)
        await standing.unsubscribe()


_LOW_CONTRAST = """
(() => {
  const parts = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, at) => sum + each * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = parts(getComputedStyle(each).backgroundColor);
      if (found.length === 3 || found[3] === 1) return found;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('body *:not(svg *)')) {
    const said = [...element.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
    if (!said || !element.checkVisibility() || element.closest('.unseen, :disabled, .skip, .state-missing')) continue;
    const [one, two] = [light(parts(getComputedStyle(element).color)), light(behind(element))].sort((a, b) => b - a);
    if ((one + 0.05) / (two + 0.05) < 4.5) found.push(`${element.tagName} ${element.className} ${element.innerText}`);
  }
  return found;
})()
"""


# --- without a browser -------------------------------------------------------------------------------------------


async def test_the_page_needs_no_token_and_comes_with_its_policy(keeping_all):
    known = {_digest(TOKEN): Token(frozenset({Permission.READ}))}
    async with gateway(keeping_all[0].address, tokens=known) as (session, _):
        for path in ("/console", *(f"/console/{name}" for name in FILES)):
            async with session.get(path) as answer:
                assert answer.status == 200
                assert answer.headers["Content-Security-Policy"] == POLICY
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                body, mark = await answer.text(), answer.headers["ETag"]
                if path != "/console/prefixes.js":  # names of vocabularies
                    assert "http://" not in body.replace("http://www.w3.org/", "")
                    assert "https://" not in body
            async with session.get(path, headers={"If-None-Match": mark}) as answer:
                assert (answer.status, await answer.read()) == (304, b"")
        for name in ("none.js", "..%2fapp.py", "%2e%2e/app.py", ""):
            async with session.get(f"/console/{name}") as answer:
                assert answer.status == 404
        for path in ("/ring", "/subscriptions", "/explain?query=ASK{}"):
            async with session.get(path) as answer:
                assert answer.status == 401
    assert "'unsafe" not in POLICY


async def test_the_ring_and_its_subscriptions_are_available_to_any_program(keeping_all, ns, until):
    async with (
        p2prdf.connect(keeping_all[1].address) as client,
        gateway(keeping_all[0].address) as (session, _),
    ):
        subscriptions = [await client.subscribe(f"SELECT ?s {{ ?s <{ns}p> {each} }}") for each in range(12)]

        async def ring():
            async with session.get("/ring") as answer:
                assert answer.status == 200
                return await answer.json()

        told = await ring()
        assert [each["key"] for each in told["members"]] == sorted(node.key for node in keeping_all)
        assert told["counts"] == {"here": 5, "missing": 0, "left": 0, "unasked": 0}
        assert told["everyone_known"]
        loads = [each["load"] for each in told["members"]]
        for name in ("storage_load", "processing_load", "triples"):
            assert told["means"][name] == pytest.approx(sum(each[name] for each in loads) / 5, abs=0.01)
        assert sum(each["subscriptions_coordinated"] for each in loads) >= 12

        async def rates():
            return (await ring())["means"]["processing_load_per_second"] is not None

        await until(rates, seconds=30)
        async with session.get("/subscriptions") as answer:
            listed = await answer.json()
        mine = {each["number"]: each for each in listed["subscriptions"] if f"<{ns}p>" in each["patterns"][0]}
        assert set(mine) == {f"{each.id:016x}" for each in subscriptions}, "of all nodes, each once"
        assert len({each["home"] for each in mine.values()}) > 1
        some = next(iter(mine))
        async with session.get("/explain", params={"subscription": some}) as answer:
            assert (await answer.json())["home"]["nodes"][0] == mine[some]["home"]
        for each in subscriptions:
            await each.unsubscribe()
        async with session.get("/explain", params={"subscription": some}) as answer:
            assert answer.status == 410
        query = f"SELECT ?s\n{{ ?s <{ns}p> }}"
        for asked in (
            session.get("/explain", params={"query": query}),
            session.post("/explain", data=query, headers={"Content-Type": "application/sparql-query"}),
        ):
            async with asked as answer:
                assert answer.status == 400
                assert (await answer.json(content_type=None))["line"] == 2
        for bad in ({}, {"query": "ASK{}", "subscription": some}, {"subscription": "7"}, {"subscription": some + "0"},
                    {"query": "ASK{}", "algorithm": "magic"}):  # fmt: skip
            async with session.get("/explain", params=bad) as answer:
                assert answer.status == 400


async def test_however_many_look_nodes_are_asked_once_a_round(keeping_all):
    async with gateway(keeping_all[0].address) as (session, app):

        async def look():
            async with session.get("/ring") as answer:
                return (await answer.json())["counts"]["here"]

        survey = app[GATEWAY].survey
        assert await asyncio.gather(*(look() for _ in range(50))) == [5] * 50
        assert survey.rounds == 1


def test_the_browser_is_found_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() is None
    (tmp_path / "chromium").write_text("#!/bin/sh\n")
    (tmp_path / "chromium").chmod(0o755)
    assert program() == shutil.which("chromium")
