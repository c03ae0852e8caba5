"""One socket whose reads are stamped the moment they are made, by a thread that does nothing else.

What is done with the bytes (HTTP, decompression, a display) happens in other threads and cannot delay a stamp by more
than the interpreter needs to change threads, which is shortened while anything is measured.
"""

import contextlib
import selectors
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import NamedTuple

READ_BYTES = 1 << 16
SWITCH_S = 0.00005


class FullError(Exception):
    """More came than is wanted."""


class Stamped(NamedTuple):
    """One read: number from 1, time on perf_counter_ns, bytes (none at the end), and why it was the last, if not for
    the end of the connection."""

    no: int
    at_ns: int
    data: bytes
    error: Exception | None = None


class Wire:
    """A connected socket, plain or TLS. First `start_tls` if wanted, then `start`; then writes and takes from any one
    thread. `ragged` tells that TLS ended without close_notify, `wrote_ns` when the last write began."""

    def __init__(self, plug: socket.socket, most_bytes: int, most_reads: int) -> None:
        self.plug = plug
        self.ragged = False
        self.wrote_ns = 0
        self._most_bytes, self._most_reads = most_bytes, most_reads
        self._reads: SimpleQueue[Stamped] = SimpleQueue()
        # OpenSSL's objects bear one thread at a time.
        self._lock = threading.Lock()
        self._closing = False
        self._thread: threading.Thread | None = None

    def start_tls(self, context: ssl.SSLContext, host: str, timeout_s: float) -> None:
        """The handshake. Raises ssl.SSLError, OSError or TimeoutError."""
        self.plug.settimeout(max(timeout_s, 0.001))
        self.plug = context.wrap_socket(self.plug, server_hostname=host, suppress_ragged_eofs=False)

    def start(self) -> None:
        """From now on all that comes is read and stamped."""
        if self._thread is None:
            self.plug.setblocking(False)
            self._thread = threading.Thread(target=self._read_all, daemon=True, name="reads")
            self._thread.start()

    def write(self, data: bytes, timeout_s: float) -> None:
        """All of the bytes, or OSError (TimeoutError among them)."""
        deadline = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.plug, selectors.EVENT_WRITE)
            view = memoryview(data)
            while view:
                try:
                    with self._lock:
                        # Before, not after: by then the answer may have been stamped already.
                        self.wrote_ns = time.perf_counter_ns()
                        sent = self.plug.send(view)
                    view = view[sent:]
                except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                    left = deadline - time.monotonic()
                    if left <= 0 or not selector.select(left):
                        raise TimeoutError from None

    def take(self, timeout_s: float) -> Stamped | None:
        """The next read, or None if there is none in time."""
        try:
            return self._reads.get(timeout=max(timeout_s, 0))
        except Empty:
            return None

    def close(self) -> None:
        """Ends the reading and closes. May be called twice."""
        with self._lock:
            self._closing = True
            with contextlib.suppress(OSError):
                # Wakes the reading thread; not the TLS layer's own, which would drop TLS for it.
                socket.socket.shutdown(self.plug, socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join()
        self.plug.close()

    def _read_all(self) -> None:
        number = total = 0
        with selectors.DefaultSelector() as selector:
            selector.register(self.plug, selectors.EVENT_READ)
            while True:
                try:
                    with self._lock:
                        if self._closing:
                            return
                        data = self.plug.recv(READ_BYTES)
                    at = time.perf_counter_ns()
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    selector.select()
                    continue
                except (OSError, ValueError) as error:
                    self._end(number + 1, error)
                    return
                number, total = number + 1, total + len(data)
                self._reads.put(Stamped(number, at, data))
                if not data:
                    return
                if total > self._most_bytes or number > self._most_reads:
                    self._reads.put(Stamped(number + 1, at, b"", FullError()))
                    return

    def _end(self, number: int, error: Exception) -> None:
        at = time.perf_counter_ns()
        if isinstance(error, ssl.SSLEOFError):
            self.ragged = True
            self._reads.put(Stamped(number, at, b""))
        elif isinstance(error, ssl.SSLZeroReturnError):
            self._reads.put(Stamped(number, at, b""))
        else:
            self._reads.put(Stamped(number, at, b"", error))


_switching = threading.Lock()
_quick: list[float] = []  # the usual interval, once for each that measures


@contextlib.contextmanager
def quick_switching() -> Iterator[None]:
    """While this runs, threads change within 0.05 ms of being asked to instead of 5 ms, by which a busy consumer would
    else delay each stamp. The usual interval comes back when the last one ends."""
    with _switching:
        if not _quick:
            usual = sys.getswitchinterval()
            sys.setswitchinterval(min(usual, SWITCH_S))
        else:
            usual = _quick[0]
        _quick.append(usual)
    try:
        yield
    finally:
        with _switching:
            usual = _quick.pop()
            if not _quick:
                sys.setswitchinterval(usual)
