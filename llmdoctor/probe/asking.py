"""What a probe asks and in whose words: the target, its requests, and the dialect in which a place answers."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from llmdoctor.probe.client import send
from llmdoctor.probe.exchange import Exchange, Limits, Request
from llmdoctor.probe.pieces import Placed
from llmdoctor.probe.plan import BASE_TOKENS, Hop, Step
from llmdoctor.probe.protocols import MAX_FIRST, Dialect, detect, load, path_for
from llmdoctor.probe.protocols.custom import Custom
from llmdoctor.probe.reading import Reading

USUAL = "openai_chat"
"""What is spoken where nothing tells: most servers know it."""
MODELS_S = 10.0
"""Seconds for the list of models."""

_VERSION = re.compile(r".*/v\d+(?:alpha|beta)?\d*(?=/)")


@dataclass(frozen=True)
class Target:
    """What to ask. `dialect` is the one that the user named; empty: each place has that of its path and of what it
    answers. `body` is the user's own request, as an object, or None; headers (and the key in them) go to the hosts that
    the user named and nowhere else. `custom` says where things stand in a company's own protocol."""

    dialect: str = ""
    model: str = ""
    key: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: dict[str, Any] | None = None
    limits: Limits = field(default_factory=Limits)
    resolve: tuple[tuple[str, int, str], ...] = ()
    verify: bool = True
    custom: Custom = field(default_factory=Custom)

    def speaks(self, url: str, first: bytes = b"") -> str:
        """The name of the dialect of a place; `first` is how its answer begins."""
        return self.dialect or detect(url, first) or USUAL

    def named(self, name: str) -> Dialect:
        """The dialect of this name."""
        return self.custom if name == "custom" else load(name)


class Listening:
    """Reads an answer while it comes, in the dialect that its beginning tells."""

    def __init__(self, target: Target, url: str, stream: bool) -> None:
        self._target, self._url, self._stream = target, url, stream
        self._head = b""
        self.name = target.speaks(url)
        self._reading = Reading(self.dialect, stream)

    @property
    def dialect(self) -> Dialect:
        """As far as it is known by now."""
        return self._target.named(self.name)

    def feed(self, data: bytes) -> list[Placed]:
        """The pieces that these bytes complete; once more all of them, where they show another dialect."""
        if len(self._head) < MAX_FIRST:
            self._head += data
            name = self._target.speaks(self._url, self._head)
            if name != self.name:
                self.name = name
                self._reading = Reading(self.dialect, self._stream)
                return self._reading.feed(self._head)
        return self._reading.feed(data)


def call(target: Target, step: Step) -> tuple[Request, int | None]:
    """The request of a step, and the limit on the length of its answer that stands in it."""
    dialect = target.named(target.speaks(step.hop.url))
    parts = urlsplit(step.hop.url)
    path = path_for(dialect, parts.path, step.stream, target.model)
    sent = body(target, step)
    request = Request(
        urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")),
        headers=(("content-type", "application/json"), *_headers(target, step.hop)),
        body=json.dumps(sent).encode(),
        connect_to=step.hop.connect_to,
        resolve=target.resolve,
        http2=step.http2,
        accept_encoding=step.encoding,
        verify=target.verify,
    )
    limits = [found for place in dialect.LIMIT_AT if isinstance(found := _at(sent, place), int)]
    return request, limits[0] if limits else None


def body(target: Target, step: Step) -> dict[str, Any]:
    """What is sent: ours with a nonce against caches; or the user's own request, which is changed as little as the step
    needs: whether it streams, and of steps that ask for answers of another length the limit on it."""
    dialect = target.named(target.speaks(step.hop.url))
    own = target.body
    model = target.model or str((own or {}).get("model") or "")
    nonce = secrets.token_hex(4)
    prompt = f"Note {nonce}. Write the numbers from one to five hundred in words, separated by commas. Begin at once."
    ours = dialect.body(model, prompt, step.max_tokens, step.stream, step.tools)
    if own is None:
        return ours
    changed = dict(own)
    if "stream" in ours:
        changed["stream"] = step.stream
    if not step.stream:
        changed.pop("stream_options", None)  # no API takes it there
    if step.tools and "tools" in ours:
        changed.setdefault("tools", ours["tools"])
    if step.max_tokens != BASE_TOKENS:
        known = [place for place in dialect.LIMIT_AT if _at(changed, place) is not None]
        usual = [place for place in dialect.LIMIT_AT if _at(ours, place) is not None]
        for place in [*known, *usual][:1]:
            changed = _with(changed, place, step.max_tokens)
    return changed


def models(target: Target, hop: Hop, most_s: float) -> Exchange:
    """The answer of a place to the question which models it has."""
    most_s = min(most_s, target.limits.first_token_s)
    limits = replace(target.limits, first_token_s=most_s, total_s=most_s)
    headers = _headers(target, hop)
    url = models_url(hop.url)
    return send(Request(url, "GET", headers, b"", hop.connect_to, target.resolve, verify=target.verify), limits)


def with_model(target: Target, hop: Hop) -> Target:
    """The target with the first model that a place lists, where none was named and it lists any."""
    if target.model or target.body is not None:
        return target
    try:
        return replace(target, model=str(json.loads(models(target, hop, MODELS_S).body)["data"][0]["id"]))
    except (ValueError, KeyError, IndexError, TypeError):
        return target


def models_url(url: str) -> str:
    """Where the models are listed: beside the call itself, under the same version of the API."""
    parts = urlsplit(url)
    version = _VERSION.match(parts.path)
    return urlunsplit((parts.scheme, parts.netloc, f"{version[0] if version else '/v1'}/models", parts.query, ""))


def route(url: str) -> str:
    """The path of a URL."""
    return urlsplit(url).path or "/"


def _headers(target: Target, hop: Hop) -> tuple[tuple[str, str], ...]:
    dialect = target.named(target.speaks(hop.url))
    return (*dialect.headers(target.key, urlsplit(hop.url).hostname or "").items(), *target.headers)


def _at(document: Mapping[str, Any], place: str) -> Any:
    found: Any = document
    for key in place.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _with(document: Mapping[str, Any], place: str, value: int) -> dict[str, Any]:
    """A copy with the value at a place such as `options.num_predict`."""
    key, _, rest = place.partition(".")
    inner = document.get(key)
    return {**document, key: _with(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}
