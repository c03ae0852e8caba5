"""A name -> addresses -> a connected socket, each within its time. The resolver of the system cannot be interrupted, so
it is asked in a thread of its own that is left behind when it takes too long."""

import contextlib
import ipaddress
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

_LEAST_S = 0.25  # for one address, however little time is left for all of them


@dataclass(frozen=True)
class Address:
    """One address to connect to; `text` is what people read."""

    family: socket.AddressFamily
    target: tuple[Any, ...]

    @property
    def text(self) -> str:
        """`192.0.2.1:443` or `[2001:db8::1]:443`."""
        host, port = self.target[:2]
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


class UnknownNameError(Exception):
    """The name has no address; `str(error)` is the resolver's word."""


def split_host_port(text: str, port: int) -> tuple[str, int]:
    """Host and port of `host`, `host:port`, `[v6]:port` or a bare v6 address. ValueError where that cannot be."""
    host, colon, tail = text.rpartition(":")
    if text.startswith("[") and text.endswith("]"):
        return text[1:-1], port
    if not colon or (":" in host and not host.startswith("[")):
        return text, port
    number = int(tail)
    if not host or not 0 < number < 65536:
        raise ValueError(text)
    return host.removeprefix("[").removesuffix("]"), number


def addresses(host: str, port: int, timeout_s: float) -> list[Address]:
    """All addresses of a name, in the order that the system prefers. Raises UnknownNameError or TimeoutError."""
    found: list[list[Address] | OSError | UnicodeError] = []

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.append([Address(family, target) for family, _, _, _, target in rows])
        except (OSError, UnicodeError) as error:
            found.append(error)

    if _is_address(host):
        ask()
    else:
        thread = threading.Thread(target=ask, daemon=True, name="lookup")
        thread.start()
        thread.join(timeout_s)
    if not found:
        raise TimeoutError
    if isinstance(found[0], list):
        return found[0]
    reason = found[0].strerror if isinstance(found[0], OSError) else "no valid name"
    raise UnknownNameError(reason or "no address") from found[0]


def connect(candidates: list[Address], timeout_s: float) -> tuple[socket.socket, Address, list[str]]:
    """A TCP connection to the first address that takes one, that address, and those that failed before. Time left is
    shared among the addresses left, so that a dead one cannot eat it all. Raises the OSError of the last address
    (TimeoutError among them)."""
    deadline = time.monotonic() + timeout_s
    failed: list[str] = []
    last: OSError = TimeoutError()
    for number, address in enumerate(candidates):
        left = deadline - time.monotonic()
        if number and left <= 0:
            break
        plug = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            plug.settimeout(max(left / (len(candidates) - number), min(left, _LEAST_S), 0.001))
            plug.connect(address.target)
            plug.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            plug.close()
            last = error
            failed.append(address.text)
        except BaseException:
            plug.close()
            raise
        else:
            return plug, address, failed
    raise last


def _is_address(host: str) -> bool:
    with contextlib.suppress(ValueError):
        ipaddress.ip_address(host.partition("%")[0])
        return True
    return False
