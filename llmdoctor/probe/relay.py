"""A relay that holds a stream back on purpose: it shows what a buffering proxy does, in the demo and in tests."""

import http.client
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Literal
from urllib.parse import urlsplit

from llmdoctor.probe.canary import MOST_BODY
from llmdoctor.probe.serving import Answer, Serving, serve

_HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
_SET_BY_US = {"content-length", "host", "server", "date"}
_WAIT_S = 600
_HOLD = re.compile(r"(\d+)(ms|s|k|b|)", re.IGNORECASE)


@dataclass(frozen=True)
class Hold:
    """What is held: the `whole` answer, blocks of `amount` bytes, or all of each `amount` milliseconds; `none` of it
    lets everything pass at once."""

    kind: Literal["whole", "bytes", "period", "none"] = "whole"
    amount: int = 0

    @classmethod
    def parse(cls, text: str) -> "Hold":
        """`whole`, `none`, `16384`, `16k`, `250ms` or `2s`. ValueError for anything else."""
        word = text.strip().lower()
        if word in ("whole", "none"):
            return cls("whole" if word == "whole" else "none")
        match = _HOLD.fullmatch(word)
        if match is None or not int(match[1]):
            raise ValueError(f"{text!r} is none of whole, none, a size (16384, 16k) and a time (250ms, 2s)")
        amount, unit = int(match[1]), match[2]
        if unit in ("ms", "s"):
            return cls("period", amount * (1000 if unit == "s" else 1))
        return cls("bytes", amount * (1024 if unit == "k" else 1))


def relay(upstream: str, hold: Hold, host: str = "127.0.0.1", port: int = 0) -> Serving:
    """A running relay before the server at `upstream` (scheme, host and port count). ValueError for an unusable URL,
    OSError where the port cannot be had."""
    parts = urlsplit(upstream)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{upstream!r} is no http or https URL")

    class Handler(_Handler):
        held = hold
        secure = parts.scheme == "https"
        target = (parts.hostname, parts.port)

    return serve(host, port, Handler)


class _Handler(Answer):
    server_version = "llmdoctor-relay"
    held: Hold
    secure: bool
    target: tuple[str | None, int | None]

    def do_GET(self) -> None:  # noqa: N802 - http.server calls it by this name
        self._pass_on()

    def do_POST(self) -> None:  # noqa: N802 - http.server calls it by this name
        self._pass_on()

    def _pass_on(self) -> None:
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        connection = kind(self.target[0] or "", self.target[1], timeout=_WAIT_S)
        sent = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP | _SET_BY_US}
        body = self.read_body(MOST_BODY)
        try:
            connection.request(self.command, self.path, body or None, sent)
            self._answer(connection.getresponse())
        except (OSError, http.client.HTTPException):
            # Before an answer began this is a bad gateway; after that it must break off.
            if not self._begun:
                self.answer_json({"error": {"message": "the server behind the relay gave no answer"}}, 502)
            self.close_connection = True
        finally:
            connection.close()

    _begun = False

    def _answer(self, response: http.client.HTTPResponse) -> None:
        dropped = _HOP_BY_HOP | _SET_BY_US
        headers = {name: value for name, value in response.getheaders() if name.lower() not in dropped}
        headers["Via"] = "1.1 relay"
        if self.held.kind == "whole" or response.getheader("content-length") is not None:
            self.answer_whole(response.status, headers, response.read())
            return
        for block in _held(response, self.held):
            if not self._begun:  # as buffering proxies do: headers wait for the first block, too
                self.begin(response.status, headers)
                self._begun = True
            self.send(block)
        if not self._begun:
            self.begin(response.status, headers)
        self.finish_stream()
        self._begun = False


def _held(response: http.client.HTTPResponse, hold: Hold) -> Iterator[bytes]:
    """The blocks that leave, each when it leaves. OSError where the stream broke off."""
    pieces: SimpleQueue[bytes | Exception] = SimpleQueue()
    threading.Thread(target=_drain, args=(response, pieces), daemon=True, name="upstream").start()
    kept, next_s = b"", time.monotonic() + hold.amount / 1e3
    while True:
        try:
            timeout = max(0.0, next_s - time.monotonic()) if hold.kind == "period" else None
            piece = pieces.get(timeout=timeout)
        except Empty:
            next_s += hold.amount / 1e3
            if kept:
                yield kept
            kept = b""
            continue
        if isinstance(piece, Exception):
            raise OSError("the stream broke off") from piece
        kept += piece
        while hold.kind == "bytes" and len(kept) >= hold.amount:
            yield kept[: hold.amount]
            kept = kept[hold.amount :]
        if kept and (not piece or hold.kind == "none"):
            yield kept
            kept = b""
        if not piece:
            return


def _drain(response: http.client.HTTPResponse, pieces: "SimpleQueue[bytes | Exception]") -> None:
    try:
        while piece := response.read1(1 << 16):
            pieces.put(piece)
        pieces.put(b"")
    except (OSError, ValueError, http.client.HTTPException) as error:
        pieces.put(error)
