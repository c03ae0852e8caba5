"""The httpx transport of the client: httpcore speaks HTTP/1.1 and HTTP/2, a backend of ours looks up, connects, stamps.

httpcore's parsers run in the caller's thread, on reads that another thread has stamped already (`wire.py`).
"""

import ssl
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore
import httpx

from llmdoctor.probe.certificate import Certificate
from llmdoctor.probe.exchange import Request
from llmdoctor.probe.lookup import Address, addresses, connect, split_host_port
from llmdoctor.probe.recorder import Recorder
from llmdoctor.probe.tls import certificate_of, context_for
from llmdoctor.probe.tunnel import open_tunnel, read_proxy
from llmdoctor.probe.wire import Wire

HEADER_BYTES = 1 << 18
"""Room for response headers beside the body; httpcore gives up far earlier."""

_UNUSED = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""httpcore changes the one that it is given, and loads all authorities anew where none is; ours is `Backend.tls`."""


class Backend(httpcore.NetworkBackend):
    """Looks up, connects and notes each phase. httpcore calls with these keyword names."""

    def __init__(self, request: Request, recorder: Recorder) -> None:
        self._request, self._recorder = request, recorder
        self._wire: Wire | None = None
        self.host = ""
        self.address: Address | None = None
        self.tried: tuple[str, ...] = ()
        self.certificate: Certificate | None = None
        self.http2 = False

    @property
    def ragged(self) -> bool:
        """Whether TLS ended without its farewell."""
        return self._wire is not None and self._wire.ragged

    @property
    def tls(self) -> ssl.SSLContext:
        """The TLS settings of the request."""
        return context_for(self._request.verify, self._request.http2, self._request.ca_file)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the recorder knows what is left
        local_address: str | None = None,  # noqa: ARG002
        socket_options: Any = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        recorder = self._recorder
        recorder.begin()
        self.host = host
        if self._request.connect_to is not None:
            host, port = split_host_port(self._request.connect_to, port)
        host = next((to for name, at, to in self._request.resolve if (name.lower(), at) == (host.lower(), port)), host)
        proxy = read_proxy(self._request.proxy) if self._request.proxy is not None else None
        # Through a proxy its own name is looked up; the other is the proxy's business.
        found = addresses(*((proxy.host, proxy.port) if proxy else (host, port)), recorder.connect_left())
        recorder.mark("dns")
        recorder.stage = "connect"
        self.address = found[0]
        plug, self.address, tried = connect(found, recorder.connect_left())
        self.tried = tuple(tried)
        self._wire = Wire(plug, recorder.limits.read_bytes + HEADER_BYTES, recorder.limits.reads)
        if proxy is not None:
            open_tunnel(plug, proxy, host, port, recorder.connect_left())
        recorder.mark("connect")
        recorder.stage = "send"
        return _Stream(self._wire, self, recorder)

    def close(self) -> None:
        """Closes the socket, also where httpcore did not come to it."""
        if self._wire is not None:
            self._wire.close()


class _Stream(httpcore.NetworkStream):
    def __init__(self, wire: Wire, backend: "Backend", recorder: Recorder) -> None:
        self._wire, self._backend, self._recorder = wire, backend, recorder

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,  # noqa: ARG002 - we have one of our own
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        self._recorder.stage = "tls"
        host = server_hostname or self._backend.host
        self._wire.start_tls(self._backend.tls, host, self._recorder.connect_left())
        self._recorder.mark("tls")
        self._recorder.stage = "send"
        self._backend.certificate = certificate_of(self._wire.plug)
        self._backend.http2 = isinstance(self._wire.plug, ssl.SSLSocket) and (
            self._wire.plug.selected_alpn_protocol() == "h2"
        )
        return self

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        recorder = self._recorder
        self._wire.start()
        end, phase = recorder.deadline()
        try:
            self._wire.write(buffer, (end - time.perf_counter_ns()) / 1e9)
        except TimeoutError as error:
            raise recorder.expire(end, phase) from error
        except OSError as error:
            # An answer may have come all the same; httpcore looks for it after this error.
            raise httpcore.WriteError from error
        recorder.wrote_ns = self._wire.wrote_ns

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - given as it was read
        recorder = self._recorder
        recorder.finish_read()
        end, phase = recorder.deadline()
        stamped = self._wire.take((end - time.perf_counter_ns()) / 1e9)
        if stamped is None or stamped.at_ns > end:
            raise recorder.expire(end, phase)
        if stamped.error is not None:
            recorder.end_ns = stamped.at_ns
            raise stamped.error
        recorder.take(stamped)
        return stamped.data

    def close(self) -> None:
        self._wire.close()

    def get_extra_info(self, info: str) -> Any:
        if info == "ssl_object" and isinstance(self._wire.plug, ssl.SSLSocket):
            return self._wire.plug
        return None


class Transport(httpx.BaseTransport):
    """An httpx transport of one connection, whose bytes go through our backend. It raises what that and httpcore
    raise, unchanged."""

    def __init__(self, http2: bool, backend: Backend) -> None:
        self._http2, self._backend = http2, backend
        self._connection: httpcore.HTTPConnection | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The response as soon as its headers are there; its stream gives the body, not decoded."""
        raw = request.url
        url = httpcore.URL(scheme=raw.raw_scheme, host=raw.raw_host, port=raw.port, target=raw.raw_path)
        self._connection = httpcore.HTTPConnection(
            origin=url.origin, ssl_context=_UNUSED, http2=self._http2, network_backend=self._backend
        )
        answer = self._connection.handle_request(
            httpcore.Request(
                method=request.method,
                url=url,
                headers=request.headers.raw,
                content=request.stream,
                extensions=request.extensions,
            )
        )
        assert isinstance(answer.stream, Iterable)
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer.stream), extensions=answer.extensions
        )

    def close(self) -> None:
        """Closes the connection."""
        if self._connection is not None:
            self._connection.close()
        self._backend.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts
