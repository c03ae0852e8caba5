"""Small servers on real sockets for the tests of the client: each connection is answered by a script."""

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import h2.config
import h2.connection
import h2.events
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Script = Callable[[socket.socket, bytes], None]
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


class Server:
    """Answers each connection in a thread with `script(socket, request)`, then closes it. `requests` are what came."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.alpn: list[str | None] = []
        self.names: list[str | None] = []
        self._script, self._tls = script, tls
        if tls is not None:
            tls.sni_callback = lambda _, name, __: self.names.append(name)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/v1/chat/completions"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plug, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(plug,), daemon=True).start()

    def _serve(self, plug: socket.socket) -> None:
        with contextlib.suppress(OSError):
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                plug = self._tls.wrap_socket(plug, server_side=True)
                self.alpn.append(plug.selected_alpn_protocol())
            with plug:
                if self.alpn and self.alpn[-1] == "h2":
                    self._script(plug, b"")
                    return
                request = _request(plug)
                if request.strip():
                    self.requests.append(request)
                self._script(plug, request)


def _request(plug: socket.socket) -> bytes:
    data = b""
    # A TLS greeting is answered at once, as servers without TLS do.
    while b"\r\n\r\n" not in data and not data.startswith(b"\x16") and (more := plug.recv(65536)):
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    sizes = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while len(body) < int(sizes[0] if sizes else 0):
        body += plug.recv(65536)
    return head + b"\r\n\r\n" + body


def says(*pieces: bytes, gap_s: float = 0.0) -> Script:
    """A script that sends these pieces, each in its own write, with pauses between."""

    def script(plug: socket.socket, _: bytes) -> None:
        for number, piece in enumerate(pieces):
            if number and gap_s:
                threading.Event().wait(gap_s)
            plug.sendall(piece)

    return script


class Steps:
    """Each piece is sent when the one before it has been read, so that each is a read of its own, however busy the
    machine is. `shown` is to be told of each read."""

    def __init__(self) -> None:
        self._turn = threading.Semaphore(0)

    def shown(self, _: object) -> None:
        """A read has come."""
        self._turn.release()

    def wait(self) -> None:
        """Until the last piece has been read."""
        self._turn.acquire(timeout=20)

    def says(self, *pieces: bytes) -> Script:
        """A script that sends these pieces; response headers alone are no read, so they go with the first."""

        def script(plug: socket.socket, _: bytes) -> None:
            for number, piece in enumerate(pieces):
                if number:
                    self.wait()
                plug.sendall(piece)

        return script


def silent(plug: socket.socket, _: bytes) -> None:
    """A script that says nothing until the client is gone."""
    plug.recv(1)


def chunk(data: bytes) -> bytes:
    """Data as a chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def reset(plug: socket.socket) -> None:
    """Breaks the connection with a TCP reset."""
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    plug.close()


def certificate(folder: Path, name: str = "127.0.0.1", days: int = 30) -> Path:
    """A file with a new key and a certificate that it signs itself, for a host name or an address."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "stream.test"),
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Test Authority"),
        ]
    )
    now = datetime.datetime.now(datetime.UTC)
    try:
        alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=60))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}{days}.pem"
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


def tls_server(pem: Path, protocols: tuple[str, ...] = ("http/1.1",)) -> ssl.SSLContext:
    """The TLS settings of a server with that key and certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    context.set_alpn_protocols(list(protocols))
    return context


class H2:
    """One HTTP/2 connection from the server's side, after the first whole request; `request` are its headers."""

    def __init__(self, plug: socket.socket) -> None:
        self.plug = plug
        # Responses that break the rules must be possible.
        config = h2.config.H2Configuration(
            client_side=False, validate_outbound_headers=False, normalize_outbound_headers=False
        )
        self.state = h2.connection.H2Connection(config)
        self.state.initiate_connection()
        self.flush()
        self.stream, self.request, self.body = 0, dict[bytes, bytes](), b""
        while not any(isinstance(event, h2.events.StreamEnded) for event in self._events()):
            pass

    def _events(self) -> Iterator[h2.events.Event]:
        for event in self.state.receive_data(self.plug.recv(65536)):
            if isinstance(event, h2.events.RequestReceived):
                self.stream, self.request = event.stream_id or 0, dict(event.headers or [])
            if isinstance(event, h2.events.DataReceived):
                self.body += event.data or b""
            yield event
        self.flush()

    def headers(self, *more: tuple[bytes, bytes]) -> None:
        """Status 200 and further headers."""
        self.state.send_headers(self.stream, [(b":status", b"200"), (b"content-type", b"text/event-stream"), *more])
        self.flush()

    def data(self, data: bytes, end: bool = False) -> None:
        """A DATA frame."""
        self.state.send_data(self.stream, data, end_stream=end)
        self.flush()

    def flush(self) -> None:
        """Sends what h2 wants to be sent."""
        self.plug.sendall(self.state.data_to_send())
