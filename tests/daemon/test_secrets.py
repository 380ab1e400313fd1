"""Planted secrets: they are in files, and in no output, answer, command line or environment of a process."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
import traceback
from pathlib import Path

import aiohttp
import pytest
from canaries import Secret, canary_server
from tls_files import Certificates, careless, tls_of

import p2prdf
from p2prdf.errors import P2PRDFError
from p2prdf.gateway.access import read_tokens
from p2prdf.gateway.webhooks import read_keys
from p2prdf.replica.credentials import find_credentials, read_credentials
from p2prdf.replica.endpoint import Endpoint, EndpointConfig
from p2prdf.replica.hosts import Hosts
from p2prdf.tls import context_of
from p2prdf_node.config import load_config

SECONDS = 20.0


def private(path: Path, text: str) -> Path:
    """Write a file that only its owner may read."""
    path.write_text(text)
    path.chmod(0o600)
    return path


def key_lines(folder: Path) -> list[str]:
    """Return the lines of a private key that belong to it alone: not the header and footer."""
    return [line for line in (folder / "tls.key").read_text().splitlines() if not line.startswith("-")]


def started_with(pid: int) -> bytes:
    """Return the command line and the environment of a process."""
    return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


class Told:
    """All output and answers, by their source."""

    def __init__(self, *secrets: Secret):
        self.secrets = secrets
        self.said: dict[str, bytes] = {}

    def add(self, where: str, what: bytes | str) -> None:
        """Record a text."""
        self.said[where] = what if isinstance(what, bytes) else what.encode("utf-8", "surrogateescape")

    def leaks(self) -> list[str]:
        """Return the places where a secret appears, and its encoding there."""
        return [
            f"{where}: {secret.text[:9]}, {how}"
            for where, what in self.said.items() for secret in self.secrets for how in secret.told_in(what)
        ]  # fmt: skip


@pytest.mark.parametrize("spell", [
    lambda raw: raw, lambda raw: raw.hex().encode(), lambda raw: base64.b64encode(raw),
    lambda raw: base64.b64encode(b"user:" + raw), lambda raw: base64.b64encode(b"a user:" + raw + b" more"),
])  # fmt: skip
def test_a_secret_is_found_however_it_is_spelled(spell):
    secret = Secret()
    assert secret.told_in(b"before " + spell(secret.text.encode()) + b" behind")
    assert secret.told_in(b"before " + spell(Secret().text.encode()) + b" behind") == []


# --- processes ---------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def gateway_process(folder: Path, *words: str, **environment: str):
    """Run a gateway; yield its process and its URL.  Its error output goes to a file."""
    with (folder / "gateway.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "p2prdf_cli", "serve", "gateway", "--listen", "127.0.0.1:0", *words,
            stdout=asyncio.subprocess.PIPE, stderr=log, env={**os.environ, **environment},
        )  # fmt: skip
    try:
        async with asyncio.timeout(SECONDS):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("ready "), (folder / "gateway.log").read_text()
        yield process, line.split()[1]
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def raw(port: int, data: bytes) -> bytes:
    """Send bytes, and return the answer up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        async with asyncio.timeout(SECONDS):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()


async def test_a_node_and_a_gateway_with_bad_input_reveal_no_secret(launcher, tmp_path):
    """The debug log holds none either.  The bad input contains the secrets: a token with something behind it."""
    cluster, token, webhook_key = Secret(), Secret(), Secret()
    certificates, strangers = Certificates(tmp_path), Certificates(tmp_path, "other")
    folders = certificates.node(), certificates.client("gateway")
    told = Told(cluster, token, webhook_key, *(Secret(line) for folder in folders for line in key_lines(folder)))
    node = launcher.start(
        **certificates.settings(folders[0]), secret_file=private(tmp_path / "secret", cluster.text), log_level="debug",
        data=tmp_path / "data", replicas=1, copies_min=1,
    )  # fmt: skip
    names = {"CA": folders[1] / "ca.crt", "CERT": folders[1] / "tls.crt", "KEY": folders[1] / "tls.key"}
    files = (
        "--tokens", private(tmp_path / "tokens", f"{token.text} read,write\n"),
        "--webhooks", private(tmp_path / "keys", f"k {base64.b64encode(webhook_key.text.encode()).decode()}\n"),
        "--allow-host", "127.0.0.1", "--allow-private", "--allow-http",
    )  # fmt: skip
    environment = {f"P2PRDF_TLS_{name}": str(path) for name, path in names.items()} | {"PYTHONASYNCIODEBUG": "1"}
    async with gateway_process(tmp_path, "--peer", node.address, *map(str, files), **environment) as (process, url):
        await _bad_requests(url, token, told)
        await _bad_peers(node, strangers, told, cluster)
        good = {"Authorization": f"Bearer {token.text}"}
        async with aiohttp.ClientSession(url, headers=good) as session:
            await _webhook_to_nobody(session, told)
            for path in ("/status", "/metrics", "/webhooks", "/openapi.json", "/ring", "/subscriptions", "/nothing"):
                async with session.get(path) as answer:
                    told.add(path, await answer.read())
        async with p2prdf.connect(node.address, tls=tls_of(folders[1])) as client:
            told.add("status", repr(await client.status()))
        told.add("how the gateway was started", started_with(process.pid))
        told.add("how the node was started", started_with(node.process.pid))
    told.add("the gateway's log", (tmp_path / "gateway.log").read_bytes())
    node.terminate()
    await asyncio.to_thread(node.wait)
    told.add("the node's log", node.text())
    assert node.text().count("tls-refused") > 1, "else the log is of nothing"
    assert told.leaks() == []


async def _bad_requests(url: str, token: Secret, told: Told) -> None:
    port = int(url.rpartition(":")[2])
    heads = {
        "a byte behind": f"Authorization: Bearer {token.text}\x7f",
        "a line behind": f"Authorization: Bearer {token.text}\nx",
        "twice": f"Authorization: Bearer {token.text}\r\nAuthorization: Bearer {token.text}\r\nContent-Length: x",
        "no colon": f"Bearer {token.text}", "another scheme": f"Authorization: Basic {token.text}",
        "more of it": f"Authorization: Bearer {token.text}x", "a length": f"Content-Length: {token.text}",
    }  # fmt: skip
    for name, head in heads.items():
        for first in ("GET /sparql?query=ASK%7B%7D HTTP/1.1", "POST /publish HTTP/1.1"):
            said = await raw(port, f"{first}\r\nHost: localhost\r\nConnection: close\r\n{head}\r\n\r\n".encode())
            status = said.partition(b"\r\n")[0]
            assert b" 40" in status, said
            told.add(f"{name}, {first}", status)  # the rest goes to the sender alone


async def _bad_peers(node, strangers: Certificates, told: Told, cluster: Secret) -> None:
    """Connect without TLS, and with a foreign certificate; send the secret in the wrong place."""
    told.add("without TLS", await raw(node.port, f"GET /{cluster.text}".encode()[:4] * 100))
    context = careless(strangers.client())
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", node.port, ssl=context)
        told.add("a stranger", await reader.read())
        writer.transport.abort()


async def _webhook_to_nobody(session, told: Told) -> None:
    """Register a webhook that nobody takes; its secret is shown once, and later answers are searched for it."""
    body = {"name": "canary", "url": "http://127.0.0.1:9/", "query": "SELECT * { ?s <urn:p> ?o }"}

    async with asyncio.timeout(SECONDS):
        while True:  # until the gateway knows which there are
            async with session.get("/webhooks") as answer:
                if answer.status == 200:
                    break
    async with session.post("/webhooks", json=body) as answer:
        assert answer.status == 201, await answer.text()
        secret = (await answer.json())["secret"]
    told.secrets += (Secret(secret.removeprefix("whsec_")),)
    data, kind = "<urn:s> <urn:p> <urn:o> .", {"Content-Type": "text/turtle"}
    async with session.post("/publish", data=data, headers=kind) as answer:
        assert answer.status == 200
    async with asyncio.timeout(SECONDS):
        while True:
            async with session.get("/webhooks/canary") as answer:
                text = await answer.text()
            if "Connect" in text:
                break
    told.add("a webhook that fails", text)


# --- files that are bad, and servers that say no --------------------------------------------------------------------


def test_bad_files_are_refused_without_a_word_of_their_content(tmp_path):
    secret = Secret()
    texts = {
        "several words": f"{secret.text} {secret.text} {secret.text} {secret.text}", "alone": secret.text,
        "no text": f"{secret.text}\udcff", "no right": f"{secret.text} all", "a scheme": f"digest {secret.text}",
        "a host": f"h bearer {secret.text} {secret.text}", "a name": f"k {secret.text}!",
        "cut": f"k {secret.text[:7]}=",
        "PEM": f"-----BEGIN PRIVATE KEY-----\n{secret.text}\n-----END PRIVATE KEY-----\n",
    }  # fmt: skip
    readers = {
        "tokens": read_tokens, "keys": read_keys, "credentials": read_credentials,
        "one's credentials": find_credentials,
        "a key": lambda path: context_of(path, path, path, server=False),
        "settings": lambda path: load_config({}, file=path),
        "a node's key": lambda path: load_config({"tls_cert": path, "tls_key": path, "tls_ca": path, "indexes": "x"}),
        "a secret": lambda path: load_config({"secret_file": path, "listen": "0.0.0.0:1", "indexes": "x"}),
    }
    told, refused = Told(secret), 0
    for name, text in texts.items():
        for mode in (0o600, 0o644):
            path = tmp_path / "file"
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            path.chmod(mode)
            for what, reader in readers.items():
                try:
                    reader(path)
                except P2PRDFError as error:
                    refused += 1
                    told.add(f"{what}, {name}, {mode:o}", f"{error}\n{error!r}\n{traceback.format_exc()}")
            path.unlink()
    assert refused > 100
    assert told.leaks() == []


async def test_an_endpoint_that_refuses_or_is_silent_is_reported_without_its_password():
    secret = Secret()
    told = Told(secret)
    async with canary_server() as canary:
        for scheme in ("basic user:", "bearer "):
            credentials = find_credentials(None, {"P2PRDF_ENDPOINT_AUTH": scheme + secret.text})
            for url in (canary.url, "http://127.0.0.1:9/"):
                endpoint = Endpoint(
                    EndpointConfig(url, url, attempts=1), dataset="<urn:d>", credentials=credentials,
                    hosts=Hosts(["127.0.0.1"], private=True),
                )  # fmt: skip
                with pytest.raises(P2PRDFError) as raised:
                    await endpoint.cursor()
                await endpoint.close()
                told.add(scheme + url, f"{raised.value!r} {credentials!r} {endpoint.config!r}")
        assert len(canary.hits) == 2
    assert told.leaks() == []
