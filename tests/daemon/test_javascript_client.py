"""The JavaScript client (``clients/js``) in Node.js and in a browser, with real gateways in front of real nodes.

Node.js runs the test files of the package (``node --test``), the browser is Debian's ``chromium``. Where one is
missing, its tests are skipped. ``tsc`` checks the types, if it is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tomllib
from pathlib import Path

import pytest
from aiohttp import web
from browser import Browser, BrowserProcess, program
from gateways import gateway
from programs import output_of

from p2prdf.gateway.access import Permission, Token, _digest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "clients/js"
SECONDS = 240.0
TOKEN = "script-script-script"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js (node) on this machine")
needs_browser = pytest.mark.skipif(program() is None, reason="there is no browser (chromium) on this machine")


def compiler():
    """Return the TypeScript compiler of the package or of the machine, or None."""
    own = PACKAGE / "node_modules/.bin/tsc"
    return str(own) if own.exists() else shutil.which("tsc")


async def run(*words, environment=None):
    """Run a program in the package's folder; its output is part of the failure."""
    return await output_of(*words, environment=os.environ | (environment or {}), folder=PACKAGE, seconds=SECONDS)


@needs_node
async def test_unit_tests_of_the_package_pass():
    assert "# fail 0" in await run("node", "--test", "test/unit.test.js")


@needs_node
async def test_client_of_node_js_gets_each_change_once_while_gateways_are_killed(keeping_all):
    peers = [word for node in keeping_all[:2] for word in ("--peer", node.address)]
    command = [sys.executable, "-m", "p2prdf_cli", "serve", "gateway", *peers]
    told = await run("node", "--test", "test/gateway.test.js", environment={"P2PRDF_GATEWAY": json.dumps(command)})
    assert "# fail 0" in told
    assert "# skipped 0" in told


@pytest.mark.skipif(compiler() is None, reason="there is no TypeScript compiler (tsc) on this machine")
async def test_declared_types_are_those_of_the_code():
    await run(compiler(), "--project", ".")


def test_package_has_the_version_of_p2prdf_and_no_dependencies():
    about = json.loads((PACKAGE / "package.json").read_text())
    assert about["version"] == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert not [key for key in about if key.casefold().endswith("dependencies")]


_SCRIPT = """
(async () => {
  const { Gateway, NotAllowed, QueryRefused } = await import("/src/index.js");
  const gateway = new Gateway(URL_OF_GATEWAY, { token: TOKEN });
  const [query, told] = ["SELECT ?o { <urn:browser:a> <urn:browser:p> ?o }", []];
  const subscription = await gateway.subscribe(query, { pausesMs: [10, 100] });
  await gateway.publish('<urn:browser:a> <urn:browser:p> "1", "zwei"@de .', { idempotencyKey: "browser-1" });
  while (told.length < 2) told.push(...(await subscription.next()).value.added);
  await gateway.update('DELETE DATA { <urn:browser:a> <urn:browser:p> "1" }');
  const removed = (await subscription.next()).value.removed;
  subscription.close();
  await gateway.update('INSERT DATA { <urn:browser:a> <urn:browser:p> "3" }');
  const resumed = await gateway.subscribe(query, { resume: subscription.token });
  const after = (await resumed.next()).value.added;
  const abort = new AbortController();
  const aborted = await gateway.subscribe(query, { signal: abort.signal });
  setTimeout(() => abort.abort(), 10);
  const reason = await aborted.next().catch((error) => error.name);
  const refused = await gateway.query("SELECT").catch((error) => error instanceof QueryRefused && error.line);
  const denied = await new Gateway(URL_OF_GATEWAY).query(query).catch((error) => error instanceof NotAllowed);
  const found = (await gateway.query(query)).bindings;
  const texts = (rows) => rows.map(({ o }) => o.value + (o.language && "@" + o.language)).sort();
  return [texts(told), texts(removed), texts(after), reason, refused, denied, texts(found)];
})()
"""


@needs_browser
async def test_module_in_a_page_of_another_origin_publishes_queries_and_subscribes(keeping_all, tmp_path):
    files = web.Application()
    files.router.add_static("/", PACKAGE)
    runner = web.AppRunner(files)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
    known = {_digest(TOKEN): Token(frozenset(Permission))}
    process = BrowserProcess(tmp_path / "profile")
    try:
        async with (
            gateway(keeping_all[1].address, tokens=known, origins=[origin]) as (session, _),
            Browser(process.url) as browser,
        ):
            page = await browser.page(f"{origin}/package.json")
            script = _SCRIPT.replace("URL_OF_GATEWAY", json.dumps(str(session._base_url)))
            told = await page.value(script.replace("TOKEN", json.dumps(TOKEN)))
            assert told == [["1", "zwei@de"], ["1"], ["3"], "AbortError", 1, True, ["3", "zwei@de"]]
            assert [each for each in page.failures if "status of 40" not in each] == []
    finally:
        process.close()
        await runner.cleanup()
