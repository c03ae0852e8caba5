"""What the bytes of an answer mean, without a word of it: pieces, usage, problems, and how an answer ended."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Kind = Literal["comment", "event", "role", "reasoning", "text", "tool", "usage", "error", "terminal"]
Outcome = Literal["completed", "incomplete", "empty", "failed", "rate_limited"]
Shape = Literal["sse", "ndjson", "elements", "json", "html", "text", "none"]
"""What the body was: an event stream, a JSON document a line, JSON elements that follow each other, one JSON document,
an HTML page, other text, or nothing."""
Json = Any
"""What `json.loads` returns. Every reader of a dialect must expect any shape of it."""

DONE = "[DONE]"
CONTENT: frozenset[str] = frozenset({"reasoning", "text", "tool"})
"""The kinds of piece that carry generated content: a chunk is a piece of one of these kinds."""

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Usage:
    """Tokens as the other side counted them; None = not told. `input` includes the cached ones."""

    input: int | None = None
    cached: int | None = None
    output: int | None = None
    reasoning: int | None = None

    def then(self, later: "Usage") -> "Usage":
        """This usage with what a later event told: some dialects tell the prompt first and the answer last."""
        return Usage(
            self.input if later.input is None else later.input,
            self.cached if later.cached is None else later.cached,
            self.output if later.output is None else later.output,
            self.reasoning if later.reasoning is None else later.reasoning,
        )


@dataclass(frozen=True)
class Problem:
    """An error that the other side told: `error_type` is one of schema.sql, `message` is short and redacted."""

    error_type: str
    message: str = ""


@dataclass(frozen=True)
class Piece:
    """What one event, or a part of it, is. An event that carries text, finish reason and usage is several pieces.

    `text_chars` counts the characters of generated content (of a tool call: its name and arguments). At a terminal
    piece it is the length of the text that the last event repeats. `choice` tells parallel answers (n > 1) apart."""

    kind: Kind
    text_chars: int = 0
    refusal: bool = False
    usage: Usage | None = None
    finish_reason: str | None = None
    problem: Problem | None = None
    choice: int = 0
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Message:
    """One event as a dialect sees it: its name ("" = none), its text, and the JSON in it (None = not JSON)."""

    name: str
    text: str
    document: Json = None


@dataclass(frozen=True)
class Stamp:
    """When the sender says that it sent an event: `ms` on its own clock, whatever the origin of that; `clock_ns` is the
    monotonic clock of its machine, where it was told."""

    ms: float
    clock_ns: int | None = None


@dataclass(frozen=True)
class Placed:
    """A piece and its place: the event ended just before byte `end` of the decoded body, so the read that brought
    byte `end - 1` gives it its time. `bytes` is the size of the event, 0 for the second and further pieces of it."""

    piece: Piece
    end: int
    bytes: int
    name: str = ""
    stamp: Stamp | None = None


@dataclass(frozen=True)
class Ending:
    """How an answer ended. `faults`: name in `faults.FAULTS` -> how often. `chunks` counts events with content."""

    outcome: Outcome
    shape: Shape
    terminal_seen: bool
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    problem: Problem | None = None
    chunks: int = 0
    text_chars: int = 0
    reasoning_chars: int = 0
    tool_chars: int = 0
    refused: bool = False
    faults: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Example:
    """Bytes of an answer and what must be read from them. `pieces` is "kind" or "kind:chars", one for each piece."""

    name: str
    raw: bytes
    pieces: str
    outcome: Outcome = "completed"
    finish_reason: str | None = None
    usage: Usage = field(default_factory=Usage)
    error_type: str | None = None
    faults: tuple[str, ...] = ()
    stream: bool = True


def content(kind: Kind, text: object, choice: int = 0, refusal: bool = False) -> list[Piece]:
    """One piece for a non-empty text, none for anything else: an empty delta is no chunk."""
    if not isinstance(text, str) or not text:
        return []
    faults = [
        name
        for name, seen in (("replacement_character", "\ufffd" in text), ("split_character", _SURROGATE.search(text)))
        if seen
    ]
    return [Piece(kind, len(text), refusal, choice=choice, faults=tuple(faults))]


def tokens(value: object) -> int | None:
    """A count of tokens, or None where there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def together(*counts: int | None) -> int | None:
    """The sum of the counts that are known, None where none is."""
    known = [one for one in counts if one is not None]
    return sum(known) if known else None


def word(value: object) -> str | None:
    """A finish reason: a non-empty text of at most 60 characters, else None."""
    return value[:60] if isinstance(value, str) and value else None


def items(value: object) -> list[dict[str, Json]]:
    """The objects of a JSON array, nothing of any other value."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def inner(value: object, *keys: str) -> dict[str, Json]:
    """The object at the end of these keys, empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def closing(
    pieces: list[Piece], usage: Usage | None, finish_reason: str | None, terminal: bool = False, whole_chars: int = 0
) -> list[Piece]:
    """The pieces of one event, usage and end after its content; a plain event where nothing else is in it."""
    told = list(pieces)
    if usage is not None and usage != Usage():
        told.append(Piece("usage", usage=usage))
    if terminal:
        told.append(Piece("terminal", whole_chars))
    if not told:
        told.append(Piece("event"))
    if finish_reason is not None:
        told[-1] = replace(told[-1], finish_reason=finish_reason)
    return told
