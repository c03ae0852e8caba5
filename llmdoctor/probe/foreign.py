"""What is no answer of any API but stands in its place: an HTML page, a second HTTP response, plain text."""

import re

from llmdoctor.probe.pieces import Piece, Problem
from llmdoctor.probe.problems import error_type, shown

KEPT = 4096
"""Characters of a page or plain text that are looked at for what it says."""

_HTTP = re.compile(r"HTTP/[12](?:\.\d)? ([1-5]\d\d)\b")
_HTML = re.compile(r"(?i)<(?:!doctype html|html|head|body|title|center|h1|\?xml)\b")


def foreign(text: str, status: int, anywhere: bool) -> Piece | None:
    """The error that the text is, where it begins (or with `anywhere` contains) an HTTP response or an HTML page."""
    find = "search" if anywhere else "match"
    head = getattr(_HTTP, find)(text)
    if head:
        told = Problem(error_type([head[1]]), f"HTTP status {head[1]} inside the body")
        return Piece("error", problem=told, faults=("http_in_body",))
    if getattr(_HTML, find)(text):
        return Piece("error", problem=page_problem(text, status), faults=("html_in_body",) if status < 300 else ())
    return None


def page_problem(page: str, status: int) -> Problem:
    """What an HTML page says in its title: a proxy's error, or that somebody must sign in first."""
    match = re.search(r"(?is)<title[^>]*>(.*?)</title>|<h1[^>]*>(.*?)</h1>", page)
    title = shown(re.sub(r"<[^>]*>", "", match[1] or match[2] or "")) if match else ""
    if re.search(r"(?i)sign.?in|log.?in|single sign", title):
        return Problem("auth", f"an HTML page: {title}")
    found = error_type([status, *re.findall(r"\b[45]\d\d\b", title)], title)
    told = "upstream_error" if found == "other" else found
    return Problem(told, f"an HTML page: {title}" if title else "an HTML page")


def text_problem(text: str, status: int) -> Problem | None:
    """What a plain text says, such as "upstream request timeout"; None where it tells no error."""
    found = error_type([status] if status >= 300 else [], text)
    return Problem(found, shown(text)) if found != "other" or status >= 300 else None


def with_status(told: Problem | None, status: int) -> Problem | None:
    """The problem of an answer with this status: from 300 there always is one, and the status decides where the words
    leave it open."""
    if status < 300:
        return told
    vague = told is None or told.error_type in ("other", "server_error", "invalid_request", "upstream_error")
    by_status = error_type([status])
    if told is None:
        return Problem(by_status)
    return Problem(by_status, told.message) if vague else told
