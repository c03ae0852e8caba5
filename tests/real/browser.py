"""A headless chromium over its debugging pipe: pages at a width, colours and media of choice, keys, pictures."""

import base64
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
_KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowDown": 40, "ArrowRight": 39}


class Browser:
    """One page. Messages of the DevTools protocol are JSON, each ended by a zero byte, over the descriptors 3 and 4."""

    def __init__(self, profile: Path) -> None:
        commands, self._out = os.pipe()
        self._in, answers = os.pipe()
        self._process = subprocess.Popen(
            # The child's own 3 and 4, whatever numbers our ends have.
            ["bash", "-c", f'exec 3<&{commands} 4>&{answers}; exec "$@"', "bash", "chromium", *QUIET,
             f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(commands, answers), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self._read, self._number, self._session, self._loaded = b"", 0, "", False
        self.requests = list[str]()
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._out)
        os.close(self._in)
        self._process.terminate()
        self._process.wait(20)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of one command; AssertionError with the browser's words where it refuses."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            piece = os.read(self._in, 1 << 20)
            assert piece, "the browser ended"
            self._read += piece
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        self._loaded = self._loaded or message.get("method") == "Page.loadEventFired"
        return message

    def open(self, page: Path, width: int = 1000, media: Mapping[str, str] | None = None) -> None:
        """Loads a file at a window's width; `media`: {"prefers-color-scheme": "dark"}, {"forced-colors": "active"} ...,
        and {"media": "print"}."""
        wanted = dict(media or {})
        kind = wanted.pop("media", "")
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
        )
        self.requests.clear()
        self._loaded = False
        gone = self.call("Page.navigate", url=page.as_uri())
        assert "errorText" not in gone, gone
        while not self._loaded:
            self._next()

    def ask(self, script: str) -> Any:
        """The value of an expression (a promise is waited for), whatever the page's own policy on scripts."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """One key, down and up."""
        keys = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": _KEYS[key]}
        text = {"Enter": {"text": "\r"}, " ": {"text": " "}}.get(key, {})
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **keys, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **keys)

    def picture(self, path: Path, clip: Sequence[float] = ()) -> bytes:
        """A PNG of the whole page, or of x, y, width, height."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        x, y, width, height = clip or (0, 0, size["width"], size["height"])
        area = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", clip=area, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path.read_bytes()

    def printed(self) -> bytes:
        """A PDF of the page as it is printed on A4."""
        sheet = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)
        return base64.b64decode(sheet["data"])
