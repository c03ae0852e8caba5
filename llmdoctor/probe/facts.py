"""Facts of a response: a fixed list of headers and what its connection showed. Nothing else of it is ever kept."""

from collections.abc import Iterable

_HEADERS = (
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "cache-control",
    "x-accel-buffering",
    "via",
    "server",
    "age",
    "alt-svc",
    "retry-after",
)
# RFC 9113, section 8.2.2: no HTTP/2 response may have them.
_OF_CONNECTIONS = {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
_LONGEST = 200


def header_facts(headers: Iterable[tuple[str, str]], http2: bool) -> list[tuple[str, str]]:
    """(name, value) pairs in a fixed order; names as in the table `facts`, values joined by commas, cut and printable.
    `connection_headers` names those of HTTP/1.1 that came over HTTP/2, `guardrail` holds what headers with that word in
    their name say (`x-litellm-applied-guardrails`: the names of those that looked at the answer)."""
    values: dict[str, list[str]] = {}
    for name, value in headers:
        values.setdefault(name.lower(), []).append(value)
    found = [
        (name.replace("-", "_"), printable(", ".join(values[name])))
        for name in _HEADERS
        if name in values and not (http2 and name in _OF_CONNECTIONS)
    ]
    if guards := [value for name in sorted(values) if "guardrail" in name for value in values[name]]:
        found.append(("guardrail", printable(", ".join(guards))))
    if http2 and (wrong := sorted(_OF_CONNECTIONS.intersection(values))):
        found.append(("connection_headers", ", ".join(wrong)))
    return found


def printable(text: str) -> str:
    """One line of at most 200 characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST])
