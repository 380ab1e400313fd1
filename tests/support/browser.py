"""A real browser without a window, driven by its DevTools protocol over an installed WebSocket client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import time

import aiohttp

__all__ = ["Browser", "BrowserProcess", "Page", "program"]

SECONDS = 60.0
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_KEYS = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27}


def program():
    """Return the browser's program, or None if there is none on this machine."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


class BrowserProcess:
    """A running browser with a profile of its own in ``folder``; ``url`` is the address of its DevTools."""

    def __init__(self, folder):
        words = ["--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}", "--disable-gpu",
                 "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync",
                 "--disable-component-update", "--disable-dev-shm-usage", "--mute-audio", "--hide-scrollbars",
                 "--lang=en", "about:blank"]  # fmt: skip
        if os.geteuid() == 0:  # as in a container: its sandbox does not start for root
            words.insert(0, "--no-sandbox")
        log, told = folder.with_suffix(".log"), folder / "DevToolsActivePort"
        with log.open("wb") as out:
            self.process = subprocess.Popen([program(), *words], stdout=out, stderr=out, start_new_session=True)
        deadline = time.monotonic() + SECONDS
        while not (told.exists() and len(told.read_text().splitlines()) == 2):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise AssertionError(f"the browser does not start: {log.read_text(errors='replace')}")
            time.sleep(0.05)
        port, path = told.read_text().splitlines()
        self.url = f"ws://127.0.0.1:{port}{path}"

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Browser:
    """A connection to a running browser: ``async with Browser(url) as browser``."""

    def __init__(self, url):
        self._url = url
        self._numbers = itertools.count(1)
        self._answers = {}
        self._pages = {}
        self._contexts = []

    async def __aenter__(self):
        self._http = aiohttp.ClientSession()
        self._socket = await self._http.ws_connect(self._url, max_msg_size=0)
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_):
        for context in self._contexts:
            await self.send("Target.disposeBrowserContext", browserContextId=context)
        await self._socket.close()
        await self._http.close()
        self._listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._listening

    async def _listen(self):
        async for message in self._socket:
            said = json.loads(message.data)
            if "id" in said:
                answer = self._answers.pop(said["id"])
                if not answer.done():
                    answer.set_result(said)
            elif said.get("sessionId") in self._pages:
                self._pages[said["sessionId"]].happened(said["method"], said["params"])

    async def send(self, method, session=None, **params):
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        extra = {} if session is None else {"sessionId": session}
        await self._socket.send_str(json.dumps({"id": number, "method": method, "params": params, **extra}))
        async with asyncio.timeout(SECONDS):
            said = await answer
        assert "error" not in said, (method, said)
        return said["result"]

    async def page(self, url=None):
        """Open a page with a profile of its own: pages share no data."""
        context = (await self.send("Target.createBrowserContext"))["browserContextId"]
        self._contexts.append(context)
        target = await self.send("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"], context)
        for domain in ("Page", "Runtime", "Network", "Log"):
            await page.send(f"{domain}.enable")
        if url is not None:
            await page.go(url)
        return page


class Page:
    """One page, and a record of its events."""

    def __init__(self, browser, session, context):
        self._browser = browser
        self._session = session
        self._context = context
        self.requested = []
        """Addresses that the page has requested."""
        self.dialogs = []
        self.failures = []
        """Uncaught exceptions, and complaints of the browser, as texts."""

    async def send(self, method, **params):
        return await self._browser.send(method, self._session, **params)

    def happened(self, method, params):
        if method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])
        elif method == "Network.webSocketCreated":
            self.requested.append(params["url"])
        elif method == "Runtime.exceptionThrown":
            self.failures.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.failures.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Page.javascriptDialogOpening":
            self.dialogs.append(params["message"])
            self._closing = asyncio.ensure_future(self.send("Page.handleJavaScriptDialog", accept=True))

    async def allow_downloads(self, folder):
        """Save files in a folder, under the names that the page gives them."""
        where = {"downloadPath": str(folder), "browserContextId": self._context}
        await self._browser.send("Browser.setDownloadBehavior", behavior="allow", **where)

    async def go(self, url):
        await self.send("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def value(self, expression):
        """Return the value of an expression of JavaScript."""
        told = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, (expression, told["exceptionDetails"])
        return told["result"].get("value")

    async def until(self, expression, seconds=SECONDS):
        """Wait until an expression is true; return its value."""
        deadline = time.monotonic() + seconds
        told = f"(found => found instanceof Node || found)({expression})"  # an element has no value of its own
        while not (value := await self.value(told)):
            if time.monotonic() > deadline:
                shown = await self.value("document.body.innerText")
                raise AssertionError(f"{expression} did not come true; {self.failures}; the page says:\n{shown}")
            await asyncio.sleep(0.02)
        return value

    async def text(self, selector):
        """Return the text of the first element that a selector finds."""
        return await self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    async def click(self, selector):
        await self.until(f"document.querySelector({json.dumps(selector)})")
        await self.value(f"document.querySelector({json.dumps(selector)}).click()")

    async def write(self, selector, text):
        """Replace the text of a field, as typing does."""
        await self.until(f"document.querySelector({json.dumps(selector)})")
        field = f"document.querySelector({json.dumps(selector)})"
        await self.value(f"{field}.focus(), {field}.select()")
        await self.send("Input.insertText", text=text)

    async def press(self, key, *, ctrl=False):
        for kind in ("rawKeyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=_KEYS[key],
                modifiers=2 if ctrl else 0,
            )  # fmt: skip
            if kind == "rawKeyDown" and key in ("Enter", " ") and not ctrl:
                await self.send("Input.dispatchKeyEvent", type="char", text="\r" if key == "Enter" else key)

    async def look(self, width, height, *, dark=False):
        """Set width and height of the page, and light or dark mode."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.send("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, path, *, whole=False):
        """Write the visible page as PNG."""
        told = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))
