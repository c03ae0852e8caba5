"""Errors that an answer tells about itself: which type of schema.sql, and a message that can be shown."""

import re
from collections.abc import Sequence

from llmdoctor.probe.pieces import Json, Problem, inner, items
from llmdoctor.redact import mask

SHOWN = 160
"""Characters of a message."""

# The first that is found decides; in the codes first, then in the message.
_CODES: tuple[tuple[str, str], ...] = (
    ("quota", r"insufficient_quota|quota_exceeded|billing|insufficient_(?:credit|balance|funds)|payment|arrear"),
    ("context_length", r"context_length|context_window|context_size|string_above_max|too_many_tokens|tokens_exceed"),
    (
        "content_filter",
        r"content_filter|content_policy|contentpolicy|responsible_?ai|moderation|safety|data_inspection",
    ),
    ("rate_limit", r"rate_?limit|too_many_requests|resource_?exhausted|throttl|ratelimit"),
    ("timeout", r"time_?out|deadline_?exceeded|timed_out"),
    ("overloaded", r"overload|unavailable|capacity|incomplete_generation|queue_full|no_available|server_busy"),
    ("auth", r"authenticat|unauthori[sz]ed|permission|forbidden|invalid_api_key|access_denied|token_expired"),
    ("cancelled", r"cancel|abort|client_disconnect|client_closed"),
    ("upstream_error", r"upstream|bad_gateway|provider_error|api_?connection|openaiexception"),
    ("connection_reset", r"connection_(?:reset|error|closed)|broken_pipe|incomplete_read|remote_protocol"),
)
_MESSAGES: tuple[tuple[str, str], ...] = (
    (
        "quota",
        r"insufficient (?:quota|credit|balance|funds)|exceeded your current quota|billing|out of credits|余额|欠费",
    ),
    (
        "context_length",
        r"context (?:length|window|size)|maximum context|too many (?:input )?tokens|prompt is too long|max_model_len"
        r"|inputs?\W{0,2} tokens.{0,40}max_new_tokens|must have less than \d+ tokens",
    ),
    (
        "content_filter",
        r"content (?:filter|policy|management policy)|safety (?:system|filter|setting)|was blocked|违规|敏感",
    ),
    ("rate_limit", r"rate.?limit|too many requests|(?:requests|tokens) per (?:min|sec|day)|throttl|限流|频率"),
    ("timeout", r"timed? ?out|deadline exceeded|took too long|超时"),
    (
        "overloaded",
        r"overload|unavailable|at capacity|no healthy upstream|server (?:is )?busy|queue (?:is )?full|loading model"
        r"|model is loading|过载|繁忙",
    ),
    (
        "auth",
        r"(?:incorrect|invalid|missing|no) (?:api|access|auth)[ -]?(?:key|token)|unauthori[sz]ed|forbidden"
        r"|permission denied|authentication|not authenticated|鉴权",
    ),
    ("cancelled", r"cancell?ed|aborted|client (?:disconnected|closed)"),
    (
        "connection_reset",
        r"connection (?:reset|closed|aborted|refused)|broken pipe|disconnect|incomplete(?: chunked)? read|peer closed"
        r"|socket hang up",
    ),
    ("upstream_error", r"upstream|bad gateway"),
)
_VAGUE: tuple[tuple[str, str], ...] = (
    (
        "invalid_request",
        r"invalid|bad_?request|not_?found|validat|unprocess|unsupported|too_large|missing|illegal_argument",
    ),
    ("server_error", r"server|internal|api_error|generation|exception|runtime|engine|unknown_error"),
)
_VAGUE_MESSAGES: tuple[tuple[str, str], ...] = (
    ("invalid_request", r"not found|does not exist|unknown model|(?:field|is) required|unsupported|invalid"),
    (
        "server_error",
        r"internal|crash|terminated|unexpectedly stopped|out of memory|cuda|error was encountered|generation failed",
    ),
)
_STATUS = {401: "auth", 403: "auth", 402: "quota", 408: "timeout", 429: "rate_limit", 499: "cancelled"}
_VAGUE_STATUS = {502: "upstream_error", 503: "overloaded", 504: "timeout", 529: "overloaded"}

# The message of another error's JSON inside a message: gateways pass on what their provider said.
_INNER = re.compile(r"[\"']message\\?[\"']\s*:\s*\\?[\"']((?:[^\"'\\]|(?<=\w)'(?=\w))*)")
_QUOTED = re.compile(r"(?<!\w)(['\"`])(?:(?!\1).)*(?:\1|$)|[“«].*?(?:[”»]|$)")


def _first(table: Sequence[tuple[str, str]], text: str) -> str | None:
    return next((name for name, pattern in table if re.search(pattern, text, re.IGNORECASE)), None)


def _codes(codes: Sequence[object]) -> tuple[str, list[int]]:
    """Codes as one text in one spelling (RateLimitError and RESOURCE_EXHAUSTED are read alike), and the statuses."""
    words = [str(code) for code in codes if isinstance(code, (str, int)) and not isinstance(code, bool)]
    statuses = [int(one) for one in words if re.fullmatch(r"[1-5]\d\d", one)]
    spelt = [re.sub(r"(?<=[a-z])(?=[A-Z])|[\s.-]+", "_", one[:200]).lower() for one in words]
    return " ".join(one for one in spelt if not one.isdigit()), statuses


def error_type(codes: Sequence[object], message: str = "") -> str:
    """One of schema.sql's error types, from what was called type, code or status, and from the message. The plain
    codes (`invalid_request_error`, 500) say less than most messages, so the message is asked before them."""
    text, statuses = _codes(codes)
    told = _first(_CODES, text)
    if told:
        return told
    told = _first(_MESSAGES, message[:2000])
    sure = next((_STATUS[one] for one in statuses if one in _STATUS), None)
    if sure:
        return "quota" if told == "quota" else sure
    vague = next((_VAGUE_STATUS[one] for one in statuses if one in _VAGUE_STATUS), None)
    if told or vague:
        return told or vague or "other"
    if any(one >= 500 for one in statuses):
        return "server_error"
    if any(one >= 400 for one in statuses):
        return "invalid_request"
    return _first(_VAGUE, text) or _first(_VAGUE_MESSAGES, message[:2000]) or "other"


def shown(message: object) -> str:
    """A message fit to be shown: its first line without what it quotes or embeds (that may be a prompt), secrets
    masked, at most 160 characters."""
    if not isinstance(message, str):
        return ""
    line = next((one.strip() for one in message[:4000].splitlines() if one.strip()), "")
    told = _INNER.search(line)
    if told:
        line = f"{line[: line.index('{')]}{told[1]}" if "{" in line[: told.start()] else line
    line = re.sub(r"[\[{].*", "…", _QUOTED.sub("'…'", line))
    line = "".join(one if one.isprintable() else "·" for one in mask(line)).strip()
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def problem(codes: Sequence[object], message: object) -> Problem:
    """The error with these codes and this message."""
    return Problem(error_type(codes, message if isinstance(message, str) else ""), shown(message))


def told_problem(document: Json, failed: bool = False) -> Problem | None:
    """The error that a JSON document tells, in any of the usual spellings, or None. With `failed` (an HTTP status
    from 300, an event named error) a document that only has a message or a detail is an error too."""
    if isinstance(document, list):
        document = document[0] if document and failed else None
    if not isinstance(document, dict):
        return problem(["error"], document) if failed and isinstance(document, str) else None
    found = document.get("error") or next(iter(items(document.get("errors"))), None)
    if isinstance(found, dict):
        codes = [found.get(key) for key in ("code", "type", "status")]
        return problem(codes, found.get("message") or found.get("detail") or found.get("msg"))
    codes = [document.get(key) for key in ("error_type", "type", "code", "status", "statusCode")]
    if isinstance(found, str):
        message = document.get("message")
        return problem([*codes, found if message else None], message or found)
    error = found is True or "error" in (document.get("object"), document.get("type")) or set(document) == {"detail"}
    return problem(codes, _message(document)) if error or failed else None


def _message(document: dict[str, Json]) -> object:
    """The message of an error document that has no `error` in it."""
    for key in ("message", "msg", "detail", "Message"):
        told = document.get(key)
        if told:
            return next((one.get("msg") for one in items(told)), told)
    return inner(document, "fault").get("faultstring")
