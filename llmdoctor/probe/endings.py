"""How an exchange ended, told from the error that ended it and from what had come until then."""

import os
import re
import ssl
from dataclasses import dataclass

from llmdoctor.probe.coding import CodingError
from llmdoctor.probe.exchange import FRAMING_ERRORS, Ending, Limits, Phase
from llmdoctor.probe.lookup import UnknownNameError
from llmdoctor.probe.recorder import CancelledError, ExpiredError, Recorder
from llmdoctor.probe.tls import reason_of
from llmdoctor.probe.tunnel import TunnelError
from llmdoctor.probe.wire import FullError

_RESPONSE = re.compile(rb"HTTP/1\.[01] \d{3} ")
_SETUP = ("dns", "connect", "tls")
# After these the answer is usable and whole as far as can be told; they are noted beside it.
_HARMLESS = {"trailing_bytes", "tls_cut", "coding_unknown", "coding_trailing"}


@dataclass(frozen=True)
class Ended:
    """Why an exchange is not simply complete; `ending` may still be `complete`, with a `framing_error` beside it."""

    ending: Ending
    detail: str
    timeout_phase: Phase | None = None
    framing_error: str | None = None


def _waited(phase: Phase, limits: Limits) -> Ended:
    told = {
        "connect": f"no connection within {limits.connect_s:g} s: the host is down, or something on the way drops it",
        "first_token": f"nothing was generated within {limits.first_token_s:g} s (--first-token-timeout waits longer)",
        "idle": f"nothing came for {limits.idle_s:g} s within the answer (--idle-timeout waits longer)",
        "total": f"the answer had not ended after {limits.total_s:g} s (--total-timeout waits longer)",
    }
    return Ended("timeout", told[phase], timeout_phase=phase)


def ended_by(error: Exception, recorder: Recorder) -> Ended | None:
    """What an error of ours, of the system or of TLS means; None for those of HTTP."""
    match error:
        case ExpiredError():
            return _waited(error.phase, recorder.limits)
        case TimeoutError() if recorder.stage in _SETUP:
            return _waited("connect", recorder.limits)
        case CodingError():
            return broken_framing(str(error))
        case OSError():
            return _of_system(error, recorder)
    plain: dict[type[Exception], tuple[Ending, str]] = {
        CancelledError: ("cancelled", "no more was wanted"),
        FullError: (
            "too_large",
            f"the answer is larger than {recorder.limits.read_bytes / (1 << 20):.3g} MB, and is not read on",
        ),
        UnknownNameError: ("dns", f"the name has no address: {error}"),
        TunnelError: ("unreachable", str(error)),
    }
    return Ended(*plain[type(error)]) if type(error) in plain else None


def _of_system(error: OSError, recorder: Recorder) -> Ended:
    if isinstance(error, ssl.SSLError):
        return Ended("tls", reason_of(error))
    words = os.strerror(error.errno).lower() if error.errno else "no reason given"
    if isinstance(error, ConnectionRefusedError):
        return Ended("refused", "nothing listens there: connection refused (does the service run, is the port right?)")
    if recorder.stage == "tls":
        return Ended("tls", f"the connection broke within the TLS handshake: {words}")
    if recorder.stage in _SETUP:
        return Ended("unreachable", f"no way to that address: {words}")
    return Ended("reset", f"the other side broke the connection: {words}")


def broken_framing(name: str, detail: str = "") -> Ended:
    """The fault of one of FRAMING_ERRORS."""
    ending: Ending = "complete" if name in _HARMLESS else "incomplete"
    return Ended(ending, FRAMING_ERRORS[name] + detail, framing_error=name)


def broken_off(recorder: Recorder) -> Ended:
    """An HTTP/1.1 answer that its framing says is not whole, or that breaks its framing."""
    if recorder.framing is None:
        if not recorder.eof or recorder.no_http:
            return Ended("protocol", "what answers there speaks no HTTP")
        return broken_framing("cut_header" if recorder.any_bytes else "no_answer")
    if recorder.eof:
        return broken_framing("short_length" if recorder.framing == "length" else "cut_chunked")
    return broken_framing("http_in_body" if _RESPONSE.search(recorder.newest) else "bad_chunk")


def broken_off_h2(cause: object, recorder: Recorder) -> Ended:
    """The same of an HTTP/2 answer; `cause` is the event or error of h2."""
    kind, code = type(cause).__name__, getattr(cause, "error_code", None)
    with_code = f" with {getattr(code, 'name', code)}" if code is not None else ""
    if kind == "StreamReset":
        return broken_framing("h2_reset", with_code)
    if kind in ("ConnectionTerminated", "ConnectionNotAvailable"):
        return broken_framing("h2_goaway", with_code)
    if kind == "InvalidBodyLengthError":
        return broken_framing("h2_length")
    if recorder.eof:
        return broken_framing("h2_closed" if recorder.any_bytes else "no_answer")
    return Ended("protocol", "what came breaks the rules of HTTP/2")


def at_the_end(recorder: Recorder, length: int | None, ragged: bool) -> Ended | None:
    """What is wrong with an answer whose framing says that it is whole."""
    if (name := recorder.decoding.end()) is not None:
        return broken_framing(name)
    if recorder.framing == "length" and length is not None and recorder.wire_bytes > length:
        return broken_framing("trailing_bytes")
    if recorder.framing == "close" and ragged:
        return broken_framing("tls_cut")
    return None
