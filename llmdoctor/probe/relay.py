"""A relay that holds a stream back or cuts it on purpose: it shows what proxies do, in the demo and in tests."""

import contextlib
import http.client
import socket
import threading
import time
from itertools import chain
from queue import SimpleQueue
from urllib.parse import urlsplit

from llmdoctor.probe.canary import MOST_BODY
from llmdoctor.probe.holding import Hold, Pieces, held
from llmdoctor.probe.serving import Answer, Serving, serve

_HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
_SET_BY_US = {"content-length", "host", "server", "date"}
_WAIT_S = 600


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
        since = time.monotonic()
        kind = http.client.HTTPSConnection if self.secure else http.client.HTTPConnection
        connection = kind(self.target[0] or "", self.target[1], timeout=_WAIT_S)
        sent = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP | _SET_BY_US}
        body = self.read_body(MOST_BODY)
        try:
            connection.request(self.command, self.path, body or None, sent)
            plug = connection.sock  # the response takes it over where the server closes at its end
            self._answer(connection.getresponse(), plug, since)
        except (OSError, http.client.HTTPException):
            # Before an answer began this is a bad gateway; after that it must break off.
            if not self._begun:
                self.answer_json({"error": {"message": "the server behind the relay gave no answer"}}, 502)
            self.close_connection = True
        finally:
            connection.close()

    _begun = False

    def _answer(self, response: http.client.HTTPResponse, plug: socket.socket, since: float) -> None:
        dropped = _HOP_BY_HOP | _SET_BY_US
        headers = {name: value for name, value in response.getheaders() if name.lower() not in dropped}
        headers["Via"] = "1.1 relay"
        if self.held.kind == "whole" or response.getheader("content-length") is not None:
            self.answer_whole(response.status, headers, response.read())
            return
        pieces: Pieces = SimpleQueue()
        reader = threading.Thread(target=_drain, args=(response, pieces), daemon=True, name="upstream")
        reader.start()
        try:
            for block in chain([b""] * (not self.held.late_headers), held(pieces, self.held, since)):
                if not self._begun:
                    self.begin(response.status, headers)
                    self._begun = True
                self.send(block)
            self.finish_stream()
        finally:
            with contextlib.suppress(OSError):
                plug.shutdown(socket.SHUT_RDWR)  # a reader that still waits is woken by it
            reader.join()
        self._begun = False


def _drain(response: http.client.HTTPResponse, pieces: Pieces) -> None:
    try:
        while piece := response.read1(1 << 16):
            pieces.put(piece)
        pieces.put(b"")
    except (OSError, ValueError, http.client.HTTPException) as error:
        pieces.put(error)
