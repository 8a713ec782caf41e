"""browser.py: a page in Chromium, driven over its debugging pipe; nothing but Python's own library is needed.

    with Browser(path_of_chromium) as browser:
        page = browser.open("page.html", width=1400, height=900)
        page.wait("document.documentElement.dataset.ready === 'true'")
        page.value("document.title")

A script error, an unhandled rejection or an error on the console of the page is in page.errors.

    browser.py CHROMIUM FILE READY VALUE

opens a page, waits until the expression READY is true, and prints the expression VALUE. Exit status 1: the page has an
error or is not ready within a minute. The virtual time of --dump-dom is of no use: it runs on while the page waits for a
frame.
"""
import base64
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time


class Browser:
    """Starts the browser. A sandbox of its own is not to be had as root or in a container."""

    def __init__(self, program, seconds=120):
        self.home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.deadline = time.monotonic() + seconds
        self.numbers = 0
        self.events = []
        self.buffer = b""
        to_browser, self.out = os.pipe()
        self.answers, from_browser = os.pipe()

        def connect():  # the browser reads from 3 and writes to 4
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--no-first-run", f"--user-data-dir={self.home.name}/profile", "--remote-debugging-pipe", "about:blank"],
            env={**os.environ, "HOME": self.home.name}, preexec_fn=connect, close_fds=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.answers)
        self.home.cleanup()  # the last processes of the browser may still write there, and end by themselves

    def receive(self):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0, self.deadline - time.monotonic()))
            part = os.read(self.answers, 1 << 20) if ready else b""
            if not part:
                raise RuntimeError("the browser ended" if ready else "the browser does not answer")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, session=None, **parameters):
        self.numbers += 1
        number = self.numbers
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path, width=1400, height=900, dark=False, touch=False):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        page.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        page.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri())
        return page


class Page:
    def __init__(self, browser, session):
        self.browser = browser
        self.session = session

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    @property
    def errors(self):
        self.value("0")  # events that are under way arrive before the answer
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            if event["method"] == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                found.append(event["params"]["entry"]["text"])
        return found

    def value(self, script):
        """Returns the value of an expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def wait(self, script, seconds=60):
        """Waits until an expression is true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.value(f"document.readyState === 'complete' && Boolean({script})"):
                return True
            time.sleep(0.02)
        return False

    def key(self, key, **modifiers):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if kind == "keyDown" and len(key) == 1 else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text, **modifiers)

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left" if kind != "mouseMoved" else "none", clickCount=1)

    def screenshot(self, path, whole=True):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        pathlib.Path(path).write_bytes(base64.b64decode(picture["data"]))


def main(program, path, ready, value):
    with Browser(program) as browser:
        page = browser.open(path)
        is_ready = page.wait(ready)
        if page.errors or not is_ready:
            raise SystemExit("\n".join(page.errors) or "the page is not ready within a minute")
        print(page.value(value))


if __name__ == "__main__":
    main(*sys.argv[1:])
