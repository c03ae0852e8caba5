"""A tunnel through an HTTP proxy, where the user asks for one."""

import base64
import socket
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_LONGEST = 1 << 16


class TunnelError(Exception):
    """The proxy opens no tunnel; `str(error)` says why, without its address or password."""


@dataclass(frozen=True)
class Proxy:
    """Where an HTTP proxy listens, and what it wants as Proxy-Authorization."""

    host: str
    port: int
    credentials: str | None = field(default=None, repr=False)


def read_proxy(text: str) -> Proxy:
    """The proxy of `http://user:password@host:port`, `host:port` or `host`. ValueError for anything else."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("only http:// proxies")
    credentials = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        credentials = base64.b64encode(pair.encode()).decode()
    return Proxy(parts.hostname, parts.port or 80, credentials)


def open_tunnel(plug: socket.socket, proxy: Proxy, host: str, port: int, timeout_s: float) -> None:
    """Makes the socket, which is connected to the proxy, one to host and port. Raises TunnelError or OSError."""
    plug.settimeout(timeout_s)
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.credentials is not None:
        lines.append(f"Proxy-Authorization: Basic {proxy.credentials}")
    plug.sendall("\r\n".join([*lines, "", ""]).encode("ascii", "replace"))
    answer = b""
    # Byte by byte: what follows the answer belongs to the other side.
    while not answer.endswith(b"\r\n\r\n"):
        if not (more := plug.recv(1)) or len(answer) > _LONGEST:
            raise TunnelError("the proxy gave no answer to CONNECT")
        answer += more
    status = answer.split(b" ", 2)[1:2]
    if not status or not status[0].startswith(b"2"):
        code = status[0].decode("ascii", "replace") if status and status[0].isdigit() else "no HTTP status"
        raise TunnelError(f"the proxy answered {code} to CONNECT")
