"""A headless Chromium, driven through the WebDriver protocol of chromedriver."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1500,1000",
)  # fmt: skip


def available() -> bool:
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


class Browser:
    """One page. `directory` is a fresh one for the browser's own files."""

    def __init__(self, directory: Path) -> None:
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        )  # fmt: skip
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if "started successfully on port" in line:
                port = line.split("port")[1].strip(" .\n")
                break
        self._base = f"http://127.0.0.1:{port}/session"
        options = {
            "binary": shutil.which("chromium"),
            "args": [*FLAGS, f"--user-data-dir={directory}"],
        }
        capabilities = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._post("", {"capabilities": {"alwaysMatch": capabilities}})
        self._base += f"/{made['sessionId']}"

    def close(self) -> None:
        try:
            self._ask("", None, "DELETE")
        finally:
            self._driver.terminate()
            self._driver.wait(10)

    def open(self, path: Path) -> float:
        """Seconds until the page was loaded and its script had run."""
        begin = time.perf_counter()
        self._post("/url", {"url": path.as_uri()})
        return time.perf_counter() - begin

    def run(self, script: str) -> Any:
        return self._post("/execute/sync", {"script": script, "args": []})

    def wait(self, script: str) -> Any:
        """What the script returns as soon as that is true, or at last."""
        end = time.monotonic() + 5
        while not (found := self.run(script)) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def click(self, selector: str) -> None:
        found = self._post("/element", {"using": "css selector", "value": selector})
        self._post(f"/element/{found[ELEMENT]}/click", {})

    def keys(self, text: str) -> None:
        active = self._ask("/element/active", None, "GET")
        self._post(f"/element/{active[ELEMENT]}/value", {"text": text})

    def prefer(self, scheme: str) -> None:
        """Let pages find that the reader likes "dark" or "light" colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        params = {"media": "", "features": features}
        self._post("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": params})

    def resize(self, width: int, height: int) -> None:
        """Let pages find a window of this size, in pixels."""
        params = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._post(
            "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": params}
        )

    def drag(self, x: int, y: int, by: int) -> None:
        """The mouse takes hold at a place and goes `by` pixels to the right."""
        for kind, at in (("Pressed", x), ("Moved", x + by), ("Released", x + by)):
            params = {"type": f"mouse{kind}", "x": at, "y": y, "button": "left", "clickCount": 1}
            self._post("/goog/cdp/execute", {"cmd": "Input.dispatchMouseEvent", "params": params})

    def complaints(self) -> list[str]:
        """What the page wrote to the console."""
        return [entry["message"] for entry in self._post("/se/log", {"type": "browser"})]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("/screenshot", None, "GET")))

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        return self._ask(path, body, "POST")

    def _ask(self, path: str, body: dict[str, Any] | None, method: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]
