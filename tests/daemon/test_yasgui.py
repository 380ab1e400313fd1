"""YASGUI, the usual query page of SPARQL endpoints, in a real browser, on a web site of its own.

Its requests are cross-origin: the gateway permits the site (``--allow-origin``).
"""

from __future__ import annotations

import contextlib
import itertools
import json

import pytest
from aiohttp import web
from browser import Browser, BrowserProcess, program
from foreign_clients import INSTALL, package_folder
from gateways import gateway

FOLDER = package_folder("@zazuko/yasgui")
_names = itertools.count()

pytestmark = [
    pytest.mark.skipif(program() is None, reason="there is no browser (chromium) on this machine"),
    pytest.mark.skipif(FOLDER is None, reason=f"@zazuko/yasgui is missing; {INSTALL}"),
]

PAGE = """<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">
<link rel="stylesheet" href="/build/yasgui.min.css"><div id="here"></div><script src="/build/yasgui.min.js"></script>
<script>
  const endpoint = new URLSearchParams(location.search).get("endpoint");
  const config = { requestConfig: { endpoint }, endpointCatalogueOptions: { getData: () => [] }, persistencyExpire: 0 };
  const yasgui = new Yasgui(document.getElementById("here"), config);
  async function ask(query, requestConfig) {
    const { yasqe } = yasgui.getTab();
    yasqe.setValue(query);
    try {
      const told = await yasqe.query({ endpoint, ...requestConfig });
      return { status: told.status, text: told.text ?? told.content };
    } catch (error) {
      return { text: String(error.message ?? error) };
    }
  }
</script>"""


@pytest.fixture
def ns():
    """A namespace of this test's own, as the overlay is shared."""
    return f"urn:yasgui{next(_names)}:"


@contextlib.asynccontextmanager
async def site():
    """Serve the page and YASGUI's files; yield the origin."""

    async def page(_):
        return web.Response(text=PAGE, content_type="text/html")

    app = web.Application()
    app.router.add_get("/", page)
    app.router.add_static("/build", FOLDER / "build")
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_yasgui_asks_by_each_method_and_updates(keeping_all, ns, tmp_path):
    process = BrowserProcess(tmp_path / "profile")
    try:
        async with (
            site() as origin,
            gateway(keeping_all[0].address, origins=(origin,)) as (session, _),
            Browser(process.url) as browser,
        ):
            url = f"{str(session._base_url).rstrip('/')}/sparql"
            page = await browser.page(f"{origin}/?endpoint={url}")
            await page.until("typeof yasgui === 'object' && !!yasgui.getTab()")

            async def ask(query, **config):
                return await page.value(f"ask({json.dumps(query)}, {json.dumps(config)})")

            assert (await ask(f"INSERT DATA {{ <{ns}a> <{ns}p> 1, 2 }}"))["status"] == 200
            replaced = f"DELETE {{ ?s ?p 2 }} INSERT {{ ?s ?p 3 }} WHERE {{ ?s ?p 2 ; <{ns}p> 1 }}"
            assert (await ask(replaced))["status"] == 200
            select = f"SELECT ?o {{ <{ns}a> <{ns}p> ?o }} ORDER BY ?o"
            for method in ("GET", "POST"):
                told = await ask(select, method=method)
                assert told["status"] == 200, told
                found = json.loads(told["text"])["results"]["bindings"]
                assert [row["o"]["value"] for row in found] == ["1", "3"]
                await page.until("document.querySelectorAll('.yasr tbody tr').length === 2")
            assert json.loads((await ask(f"ASK {{ <{ns}a> <{ns}p> 3 }}"))["text"])["boolean"] is True
            for query in (f"CONSTRUCT WHERE {{ <{ns}a> <{ns}p> ?o }}", f"DESCRIBE <{ns}a>"):
                told = await ask(query)
                assert told["status"] == 200, told
                assert f"{ns}a" in told["text"]
            assert (await ask(f"INSERT DATA {{ GRAPH <{ns}g> {{ <{ns}a> <{ns}p> 4 }} }}"))["status"] == 200
            in_graphs = f"SELECT ?o {{ GRAPH ?g {{ <{ns}a> <{ns}p> ?o }} }}"
            for name, count in (("g", 1), ("nothing", 0)):
                config = {"namedGraphs": [f"{ns}{name}"], "args": [{"name": "timeout", "value": "20"}]}
                told = await ask(in_graphs, **config)
                assert len(json.loads(told["text"])["results"]["bindings"]) == count
            assert (await ask("SELECT * { SERVICE <http://127.0.0.1:9/> { ?s ?p ?o } }")).get("status") != 200
            await page.until("document.querySelector('.yasr').innerText.includes('query-refused')")
    finally:
        process.close()
