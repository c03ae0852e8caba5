"""A company's own event protocol: text at a JSON path, an end that has a name. `Custom(...)` is a dialect by itself."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from llmdoctor.probe.pieces import DONE, Example, Json, Message, Piece, closing, content, word
from llmdoctor.probe.problems import told_problem

_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|\[\"([^\"]*)\"\]")
Framing = Literal["sse", "ndjson", "elements"]


def steps(path: str) -> tuple[str | int, ...]:
    """The steps of a JSON path such as `$.choices[0].delta["my key"]`; "" and "$" are the whole text of an event.
    ValueError names what is wrong with it."""
    rest, found, at = path.strip(), [], 1
    if not rest:
        return ()
    if not rest.startswith("$"):
        raise ValueError(f"JSON path {path!r} must begin with $, as in $.data.text")
    while at < len(rest):
        match = _STEP.match(rest, at)
        if not match:
            raise ValueError(
                f'JSON path {path!r} cannot be read from {rest[at:]!r} on: steps are .name, [0] or ["name"]'
            )
        found.append(int(match[2]) if match[2] else match[1] or match[3])
        at = match.end()
    return tuple(found)


def at(document: Json, path: str) -> Json:
    """What stands at a JSON path, None where nothing does."""
    for step in steps(path):
        if isinstance(step, int):
            document = document[step] if isinstance(document, list) and step < len(document) else None
        else:
            document = document.get(step) if isinstance(document, dict) else None
    return document


def _filled(value: Json, words: Mapping[str, Json]) -> Json:
    """The template with {prompt}, {model}, {max_tokens} and {stream} filled in; alone they keep their JSON type."""
    if isinstance(value, dict):
        return {key: _filled(one, words) for key, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, words) for one in value]
    if isinstance(value, str):
        alone = re.fullmatch(r"\{(\w+)\}", value)
        if alone and alone[1] in words:
            return words[alone[1]]
        return re.sub(r"\{(\w+)\}", lambda match: str(words.get(match[1], match[0])), value)
    return value


@dataclass(frozen=True)
class Custom:
    """Where things stand in the events of this protocol.

    text, reasoning, finish: JSON paths ("" = not there; `text` "$" = the whole text of the event).
    text_event: only events of this name carry content ("" = all).
    terminal: what ends the answer: the name of an event, `$.path` (any true value there), `$.path=value`, or a text
    that is the whole data of an event, such as [DONE]. Empty: the end of the body is the end of the answer.
    error_event: events of this name are errors. template: the request; see body()."""

    text: str = "$.text"
    text_event: str = ""
    reasoning: str = ""
    finish: str = ""
    terminal: str = DONE
    error_event: str = "error"
    template: Mapping[str, Json] = field(default_factory=lambda: {"prompt": "{prompt}", "stream": "{stream}"})
    FRAMING: Framing = "sse"

    PATHS: ClassVar[tuple[str, ...]] = ()
    STREAM_PATHS: ClassVar[tuple[str, str] | None] = None
    SIGNS: ClassVar[tuple[tuple[bytes, ...], ...]] = ()
    LIMIT_AT: ClassVar[tuple[str, ...]] = ()
    KEY_ENV: ClassVar[tuple[str, ...]] = ("LLMDOCTOR_API_KEY",)
    EXAMPLES: ClassVar[tuple[Example, ...]] = ()

    def __post_init__(self) -> None:
        """ValueError where a path cannot be read."""
        for path in (self.text, self.reasoning, self.finish, self._end_path[0]):
            steps(path)
        if self.FRAMING not in get_args(Framing):
            raise ValueError(f"framing {self.FRAMING!r} is none of {', '.join(get_args(Framing))}")

    def headers(self, key: str, host: str = "") -> dict[str, str]:  # noqa: ARG002 - the same everywhere
        """A bearer token; other headers are the user's to give."""
        return {"authorization": f"Bearer {key}"} if key else {}

    def body(self, model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:  # noqa: ARG002 - not known here
        """The template with {prompt}, {model}, {max_tokens} and {stream} filled in."""
        words = {"prompt": prompt, "model": model, "max_tokens": max_tokens, "stream": stream}
        return {key: _filled(value, words) for key, value in self.template.items()}

    @property
    def ENDS_WITH(self) -> tuple[str, ...]:  # noqa: N802 - a constant of the modules beside this one
        """What a whole answer ends with, as the settings say."""
        return ("finish_reason",) * bool(self.finish) + ("terminal",) * bool(self.terminal)

    @property
    def _end_path(self) -> tuple[str, str]:
        path, _, value = self.terminal.partition("=")
        return (path, value) if path.startswith("$") else ("", "")

    def _ends(self, message: Message) -> bool:
        path, wanted = self._end_path
        if not path:
            return bool(self.terminal) and self.terminal in (message.name, message.text.strip())
        value = at(message.document, path)
        if not wanted:
            return bool(value)
        return str(value) == wanted or json.dumps(value) == wanted

    def delta(self, message: Message) -> list[Piece]:
        """One event of a stream. Every event belongs to a protocol that is not known."""
        if self.error_event and message.name == self.error_event:
            told = told_problem(message.document if message.document is not None else message.text, failed=True)
            return [Piece("error", problem=told)]
        ends = self._ends(message)
        found: list[Piece] = []
        if not self.text_event or message.name == self.text_event:
            if self.reasoning:
                found += content("reasoning", at(message.document, self.reasoning))
            whole = not steps(self.text)
            found += (
                content("text", message.text if whole else at(message.document, self.text))
                if not (whole and ends)
                else []
            )
        reason = word(at(message.document, self.finish)) if self.finish else None
        return closing(found, None, reason, terminal=ends)

    def answer(self, document: Json) -> list[Piece]:
        """A whole answer: one with text at the same path."""
        found = content("text", at(document, self.text)) if steps(self.text) else []
        reason = word(at(document, self.finish)) if self.finish else None
        return closing(found, None, reason, terminal=True) if found else []


SETTINGS: Mapping[str, str] = {
    **{name: name for name in ("text", "text_event", "reasoning", "finish", "terminal", "error_event")},
    "framing": "FRAMING",
}
"""What `--custom` can set, and the field of `Custom` that it is."""

# The module is the dialect with its usual settings.
_USUAL = Custom()
PATHS: tuple[str, ...] = Custom.PATHS
STREAM_PATHS: tuple[str, str] | None = Custom.STREAM_PATHS
SIGNS: tuple[tuple[bytes, ...], ...] = Custom.SIGNS
LIMIT_AT: tuple[str, ...] = Custom.LIMIT_AT
KEY_ENV: tuple[str, ...] = Custom.KEY_ENV
FRAMING: Framing = _USUAL.FRAMING
ENDS_WITH: tuple[str, ...] = _USUAL.ENDS_WITH
headers, body, delta, answer = _USUAL.headers, _USUAL.body, _USUAL.delta, _USUAL.answer

EXAMPLES: tuple[Example, ...] = (
    Example(
        "text at $.text, ended by [DONE]",
        b'data: {"text":"Hel"}\n\ndata: {"text":"lo"}\n\nevent: status\ndata: {"step":2}\n\ndata: [DONE]\n\n',
        "text:3 text:2 event terminal",
    ),
    Example(
        "an error event",
        b'data: {"text":"Hel"}\n\nevent: error\ndata: {"message":"rate limit reached"}\n\n',
        "text:3 error",
        "rate_limited",
        error_type="rate_limit",
    ),
    Example("a whole answer", b'{"text":"Hello"}', "text:5 terminal", stream=False),
)
