"""One HTTP request -> phases and timed reads. Only this module and `transport.py` import httpx and httpcore.

Nothing here retries, pools, asks the environment for a proxy, or sends anything to an origin that the URL does not
name.
"""

import contextlib
import os
import ssl
import time
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime

import h2.connection  # httpcore imports it while the clock runs
import h2.exceptions
import httpcore
import httpx

from llmdoctor import __version__
from llmdoctor.probe.endings import Ended, at_the_end, broken_off, broken_off_h2, ended_by
from llmdoctor.probe.exchange import Exchange, Limits, Request
from llmdoctor.probe.facts import header_facts, printable
from llmdoctor.probe.lookup import split_host_port
from llmdoctor.probe.recorder import CancelledError, Consumer, Framing, Recorder
from llmdoctor.probe.tls import context_for, peek
from llmdoctor.probe.transport import Backend, Transport
from llmdoctor.probe.tunnel import read_proxy
from llmdoctor.probe.wire import quick_switching

MOST_REDIRECTS = 5
_SAME_REQUEST = {307, 308}  # the others would turn a POST into a GET


def send(request: Request, limits: Limits | None = None, on_read: Consumer | None = None) -> Exchange:
    """Sends one request over a connection of its own and returns all that came of it, whatever that is: every failure
    is a value. `on_read` is called in this thread with each read of the body, decoded and whole; it may take its time,
    answer `waiting` (no token so far) or `stop`, and what it raises comes through. Redirects are followed within the
    URL's origin only."""
    limits = limits or Limits()
    url = _ready(request)
    started_at, start_ns = datetime.now(UTC), time.perf_counter_ns()
    if isinstance(url, Ended):
        return _exchange(_Try(request, Recorder(start_ns, limits, None)), "", started_at, url)
    followed: list[str] = []
    ended: Ended | None
    with quick_switching():
        while True:
            attempt = _Try(request, Recorder(start_ns, limits, on_read))
            ended = attempt.run(url, may_follow=len(followed) < MOST_REDIRECTS)
            if attempt.onward is None:
                return replace(_exchange(attempt, _safe(url), started_at, ended), redirects=tuple(followed))
            url = attempt.onward
            followed.append(_safe(url))


def _ready(request: Request) -> httpx.URL | Ended:
    """The URL, once all is there that would take time while the clock runs; or why the request cannot be sent."""
    try:
        url = _usable(request.url)
        if request.connect_to is not None:
            split_host_port(request.connect_to, 0)
        if request.proxy is not None:
            read_proxy(request.proxy)
        if url.scheme == "https":
            context_for(request.verify, request.http2, request.ca_file)
    except OSError:
        return Ended("tls", "the file of trusted authorities cannot be read")
    except (httpx.InvalidURL, ValueError):
        return Ended(
            "protocol", "the URL, connect_to or proxy cannot be used: http(s)://HOST, HOST:PORT, http://HOST:PORT"
        )
    return url


def environment_proxy(url: str) -> str | None:
    """The name of the environment variable that would send this URL through a proxy, so that the report can say that
    it was not followed. Not its value, which may hold a password."""
    try:
        parts = _usable(url)
    except (httpx.InvalidURL, ValueError):
        return None
    proxies = urllib.request.getproxies_environment()
    if urllib.request.proxy_bypass_environment(parts.host, proxies):  # type: ignore[attr-defined]  # not in the stubs
        return None
    names = [f"{kind}_proxy" for kind in (parts.scheme, "all") if proxies.get(kind)]
    return next((name for lower in names for name in (lower, lower.upper()) if os.environ.get(name)), None)


class _Try:
    """One connection and its request."""

    def __init__(self, request: Request, recorder: Recorder) -> None:
        self.request, self.recorder = request, recorder
        self.backend = Backend(request, recorder)
        self.response: httpx.Response | None = None
        self.onward: httpx.URL | None = None
        self.redirect_to: str | None = None

    def run(self, url: httpx.URL, may_follow: bool) -> Ended | None:
        """Sends and reads to the end. Returns what went wrong; `onward` is set where a redirect is to be followed."""
        transport = None
        try:
            transport = Transport(self.request.http2, self.backend)
            self.response = response = transport.handle_request(_httpx_request(self.request, url, self.recorder))
            framing = _framing(response)
            self.recorder.headers_end(framing, response.headers.get("content-encoding", ""))
            self._redirect(url, may_follow)
            if self.onward is not None:
                return None
            for part in response.iter_raw():
                self.recorder.payload(part)
            self.recorder.finish_read()
            self.recorder.whole()
            return at_the_end(self.recorder, _length(response), self.backend.ragged)
        except Exception as error:  # every failure is a value; only the consumer's own errors are not ours
            if error is self.recorder.consumer_error:
                raise
            return self._ended(error)
        finally:
            if transport is not None:
                transport.close()

    def _redirect(self, url: httpx.URL, may_follow: bool) -> None:
        response = self.response
        if response is None or not response.has_redirect_location:
            return
        try:
            target = _usable(str(url.join(response.headers["location"])))
        except (httpx.InvalidURL, ValueError):
            self.redirect_to = "no usable URL"
            return
        same_request = self.request.method in ("GET", "HEAD") or response.status_code in _SAME_REQUEST
        if may_follow and same_request and _origin(target) == _origin(url):
            self.onward = target
        else:
            self.redirect_to = _safe(target)

    def _ended(self, error: Exception) -> Ended:
        """What an error means. Messages of libraries are not passed on: they quote headers and bodies."""
        recorder = self.recorder
        recorder.broke()
        distrusted = isinstance(error, ssl.SSLCertVerificationError) and self.request.proxy is None
        if distrusted and self.backend.address is not None:
            self.backend.certificate = peek(self.backend.address, self.backend.host, recorder.limits.connect_s)
        known = ended_by(error, recorder)
        with contextlib.suppress(CancelledError):
            recorder.finish_read()  # the read in which it broke has not been shown yet
        if known is not None:
            return known
        if isinstance(error, httpcore.WriteError):
            return Ended("reset", "the connection broke while the request was sent")
        if isinstance(error, httpcore.LocalProtocolError | UnicodeError):
            return Ended("protocol", "the request cannot be sent: a header or the URL is not legal")
        if isinstance(error, httpcore.RemoteProtocolError | httpcore.ConnectionNotAvailable | h2.exceptions.H2Error):
            cause = error if isinstance(error, h2.exceptions.H2Error) or not error.args else error.args[0]
            return broken_off_h2(cause, recorder) if self.backend.http2 else broken_off(recorder)
        return Ended("protocol", f"the answer could not be read as HTTP ({type(error).__name__})")


def _httpx_request(request: Request, url: httpx.URL, recorder: Recorder) -> httpx.Request:
    headers = httpx.Headers({"user-agent": f"llmdoctor/{__version__}", "accept": "*/*"})
    if request.accept_encoding is not None:
        headers["accept-encoding"] = request.accept_encoding
    headers.update(httpx.Headers(list(request.headers)))

    def trace(name: str, _: object) -> None:
        if name.endswith("send_request_body.complete"):
            recorder.sent()

    return httpx.Request(request.method, url, headers=headers, content=request.body, extensions={"trace": trace})


def _exchange(attempt: _Try, url: str, started_at: datetime, ended: Ended | None) -> Exchange:
    recorder, backend, response = attempt.recorder, attempt.backend, attempt.response
    return Exchange(
        url=url,
        started_at=started_at,
        started_ns=recorder.start_ns,
        ending=ended.ending if ended else "complete",
        phases=recorder.phases(),
        timeout_phase=ended.timeout_phase if ended else None,
        detail=ended.detail if ended else "",
        framing_error=ended.framing_error if ended else None,
        status=response.status_code if response is not None else None,
        http_version=response.http_version if response is not None else None,
        address=backend.address.text if backend.address else None,
        tried=backend.tried,
        reads=tuple(recorder.reads),
        wire_bytes=recorder.wire_bytes,
        payload_bytes=recorder.payload_bytes,
        decoded_bytes=recorder.decoded_bytes,
        body_cut=recorder.kept_bytes < recorder.decoded_bytes,
        facts=_facts(attempt, ended),
        certificate=backend.certificate,
        redirect_to=attempt.redirect_to,
    )


def _facts(attempt: _Try, ended: Ended | None) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    if (response := attempt.response) is not None:
        found += [("http_version", response.http_version), ("status", str(response.status_code))]
        found += header_facts(response.headers.multi_items(), attempt.backend.http2)
    if attempt.backend.certificate is not None:
        found.append(("cert_issuer", printable(attempt.backend.certificate.issuer)))
    if attempt.recorder.decoding.members is not None:
        found.append(("gzip_members", str(attempt.recorder.decoding.members)))
    if ended is not None and ended.framing_error is not None:
        found.append(("framing_error", ended.framing_error))
    return tuple(found)


def _framing(response: httpx.Response) -> Framing:
    if response.http_version == "HTTP/2":
        return "h2"
    if "transfer-encoding" in response.headers:
        return "chunked"
    return "close" if _length(response) is None else "length"


def _length(response: httpx.Response) -> int | None:
    text = response.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else None


def _usable(text: str) -> httpx.URL:
    url = httpx.URL(text)
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError
    return url


def _origin(url: httpx.URL) -> tuple[str, str, int]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}[url.scheme]


def _safe(url: httpx.URL) -> str:
    """Without user, query and fragment, which may hold keys."""
    return f"{url.scheme}://{url.netloc.decode('ascii')}{url.path}"
