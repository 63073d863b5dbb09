"""A small client of the W3C WebDriver protocol, and Chromium's additions to it. Standard library only."""

import base64
import json
import pathlib
import subprocess
import time
import urllib.error
import urllib.request

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-default-apps", "--hide-scrollbars", "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Driver:
    """One browser. `scripts` false: pages run none."""

    def __init__(self, folder, port, scripts=True):
        folder = pathlib.Path(folder)
        self.process = subprocess.Popen(
            ["chromedriver", f"--port={port}", f"--log-path={folder / 'driver.log'}"], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{port}"
        self.session = None
        options = {"args": FLAGS + [f"--user-data-dir={folder / 'profile'}"]}
        if not scripts:
            options["prefs"] = {"profile.managed_default_content_settings.javascript": 2}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        until(lambda: self.is_ready(), "chromedriver listens")
        made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self.session = made["sessionId"]
        self.command("POST", "/timeouts", {"pageLoad": 30000, "script": 10000, "implicit": 0})

    def is_ready(self):
        try:
            return self.call("GET", "/status", None)["ready"]
        except OSError:
            return False

    def call(self, method, path, body):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise WebDriverError(error.read().decode(errors="replace")) from None

    def command(self, method, path, body=None):
        if method == "POST" and body is None:
            body = {}
        return self.call(method, f"/session/{self.session}{path}", body)

    def chromium(self, command, **params):
        return self.command("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def open(self, url):
        self.command("POST", "/url", {"url": url})

    def url(self):
        return self.command("GET", "/url")

    def windows(self):
        return self.command("GET", "/window/handles")

    def find(self, css):
        return self.command("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def find_all(self, css):
        found = self.command("POST", "/elements", {"using": "css selector", "value": css})
        return [one[ELEMENT] for one in found]

    def link(self, text):
        return self.command("POST", "/element", {"using": "partial link text", "value": text})[ELEMENT]

    def click(self, element):
        self.command("POST", f"/element/{element}/click")

    def type(self, element, text):
        self.command("POST", f"/element/{element}/value", {"text": text})

    def text(self, css="body"):
        """The text of an element, though the page may be replaced between finding it and reading it."""
        for _ in range(20):
            try:
                return self.command("GET", f"/element/{self.find(css)}/text")
            except WebDriverError as error:
                if not any(word in str(error) for word in ("stale element", "no such element")):
                    raise
                time.sleep(0.1)
        raise WebDriverError(f"`{css}` does not stay")

    def script(self, text, *args):
        return self.command("POST", "/execute/sync", {"script": text, "args": list(args)})

    def later(self, text, *args):
        """Runs a script that gives its answer to a function, its last argument."""
        return self.command("POST", "/execute/async", {"script": text, "args": list(args)})

    def messages(self):
        """What the console was told since it was last asked."""
        return [one["message"] for one in self.command("POST", "/se/log", {"type": "browser"})]

    def look(self, width, scheme):
        """Shows pages as wide as this, in this colour scheme."""
        self.chromium("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.chromium("Emulation.setEmulatedMedia", media="", features=features)

    def picture(self, path):
        taken = self.chromium("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        pathlib.Path(path).write_bytes(base64.b64decode(taken["data"]))

    def close(self):
        try:
            if self.session:
                self.call("DELETE", f"/session/{self.session}", None)
        except (OSError, WebDriverError):
            pass
        self.process.terminate()
        self.process.wait(timeout=20)


class WebDriverError(Exception):
    pass


def until(holds, what, seconds=30):
    """Looks again and again until something holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.05)
    raise SystemExit(f"FAILED: {what}: not within {seconds} seconds")
