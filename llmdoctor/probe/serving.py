"""Small HTTP servers of our own, several requests at once, each in a thread: the canary and the relay stand on it."""

import contextlib
import json
import socket
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from llmdoctor import __version__


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news, and a server of ours prints nothing."""


class Serving:
    """A server that runs until `close`, or as long as a `with` block."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True, name="server")
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """`http://HOST:PORT`, without a path."""
        host = str(self._server.server_address[0])
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def wait(self) -> None:
        """Until it is closed, or Ctrl-C."""
        while self._thread.is_alive():
            self._thread.join(1.0)

    def close(self) -> None:
        """Stops listening; answers that are under way break off when the process ends."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> Serving:
    """A server on that address; port 0 takes a free one. OSError where it cannot be had."""
    kind = type("_Server6", (_Server,), {"address_family": socket.AF_INET6}) if ":" in host else _Server
    return Serving(kind((host, port), handler))


class Answer(BaseHTTPRequestHandler):
    """One request: each `send` goes out at once, in one write. A client that went away ends the thread silently."""

    protocol_version = "HTTP/1.1"
    server_version = f"llmdoctor-canary/{__version__}"
    sys_version = ""
    disable_nagle_algorithm = True
    timeout = 600.0
    _chunked = False

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of the base class
        """Prints nothing."""

    def handle(self) -> None:
        """Reads requests until the connection ends, however it does."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def read_body(self, most: int) -> bytes:
        """The request's body, at most `most` bytes of it."""
        if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
            return self._chunks(most)
        text = self.headers.get("Content-Length", "0")
        size = int(text) if text.isdigit() else 0
        if size > most:
            self.close_connection = True
        return self.rfile.read(min(size, most))

    def _chunks(self, most: int) -> bytes:
        body = b""
        while (size := int(self.rfile.readline(100).partition(b";")[0].strip() or b"0", 16)) and len(body) <= most:
            body += self.rfile.read(size)
            self.rfile.readline(100)
        while self.rfile.readline(1000).strip():
            pass
        return body[:most]

    def begin(self, status: int, headers: Mapping[str, str], close: bool = False) -> None:
        """Status and headers of a stream: in chunks, or to an HTTP/1.0 client and with `close` until the connection
        closes."""
        self._chunked = not close and self.request_version != "HTTP/1.0"
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header(*(("Transfer-Encoding", "chunked") if self._chunked else ("Connection", "close")))
        self.close_connection = self.close_connection or not self._chunked
        self.end_headers()

    def send(self, data: bytes) -> None:
        """A piece of the stream."""
        if data:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def finish_stream(self) -> None:
        """The end of the stream."""
        if self._chunked:
            self.wfile.write(b"0\r\n\r\n")

    def answer_json(self, value: Any, status: int = 200) -> None:
        """A whole answer."""
        self.answer_whole(status, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def answer_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """A whole answer with its length."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
