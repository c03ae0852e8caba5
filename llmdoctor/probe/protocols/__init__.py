"""The API dialects, one module each: a file in this folder is a dialect, nothing else must be changed to add one.

A module answers six questions: by which path it is recognised (PATHS, the first is its usual one; SIGNS in the first
bytes), how a key is sent (KEY_ENV, headers), what to ask (body), what one event of a stream means (delta), what a whole
answer means (answer), and how real answers look (EXAMPLES: they are tests).
"""

import importlib
import pkgutil
from functools import cache
from typing import Literal, Protocol, cast
from urllib.parse import quote, urlsplit

from llmdoctor.probe.pieces import Example, Json, Message, Piece

MAX_FIRST = 8192
"""Bytes from the beginning of an answer in which a dialect is looked for."""


class Dialect(Protocol):
    """What a module of this folder has."""

    @property
    def PATHS(self) -> tuple[str, ...]:  # noqa: N802 - a constant of the module
        """Ends of URL paths by which it is recognised; the first is the path to add where a URL has none."""

    @property
    def STREAM_PATHS(self) -> tuple[str, str] | None:  # noqa: N802
        """The end of the path for a stream and for a whole answer, where they differ."""

    @property
    def SIGNS(self) -> tuple[tuple[bytes, ...], ...]:  # noqa: N802
        """Texts without blanks of which all of one group stand in the first bytes of an answer."""

    @property
    def LIMIT_AT(self) -> tuple[str, ...]:  # noqa: N802
        """Where a request may say how long its answer may be, dots between the keys of objects within each other."""

    @property
    def KEY_ENV(self) -> tuple[str, ...]:  # noqa: N802
        """Environment variables that hold a key, in order of preference."""

    @property
    def FRAMING(self) -> Literal["sse", "ndjson", "elements"]:  # noqa: N802
        """How JSON that is no event stream is cut into events."""

    @property
    def ENDS_WITH(self) -> tuple[str, ...]:  # noqa: N802
        """What every answer in good order ends with: "finish_reason", "terminal", both, or nothing that can be told."""

    @property
    def EXAMPLES(self) -> tuple[Example, ...]:  # noqa: N802
        """Answers and what must be read from them."""

    def headers(self, key: str, host: str = "") -> dict[str, str]:
        """Request headers of this API; with an empty key those that need none."""

    def body(self, model: str, prompt: str, max_tokens: int, stream: bool, tools: bool) -> dict[str, Json]:
        """The request; without a model where the name is empty. `tools` offers one that the prompt does not need."""

    def delta(self, message: Message) -> list[Piece]:
        """What one event of a stream means; nothing where it is no event of this API."""

    def answer(self, document: Json) -> list[Piece]:
        """What a whole answer (`stream: false`) means, a terminal piece last; nothing where it is none."""


@cache
def names() -> tuple[str, ...]:
    """All dialects, in alphabetical order: what `--protocol` takes."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))


def load(name: str) -> Dialect:
    """The dialect of this name. KeyError where there is none."""
    if name not in names():
        raise KeyError(name)
    return cast(Dialect, importlib.import_module(f"{__name__}.{name}"))


def detect(url: str, first: bytes = b"") -> str | None:
    """The dialect of a URL (or path), or None. What an answer begins with says more than where it came from."""
    compact = b"".join(first[:MAX_FIRST].split())
    path = urlsplit(url).path.rstrip("/")
    fits = [(len(end), name) for name in names() for end in load(name).PATHS if path.endswith(end)]
    by_path = max(fits)[1] if fits else None
    signed = [name for name in names() if any(all(sign in compact for sign in group) for group in load(name).SIGNS)]
    if not signed:
        return by_path
    return by_path if by_path in signed else signed[0]


def path_for(dialect: Dialect, path: str, stream: bool, model: str = "") -> str:
    """The path to ask: the dialect's own where a URL has none, and the other one where a whole answer has its own."""
    if not path.strip("/") and dialect.PATHS:
        path = dialect.PATHS[0].replace("{model}", quote(model))
    if dialect.STREAM_PATHS is None:
        return path
    wanted, other = dialect.STREAM_PATHS if stream else dialect.STREAM_PATHS[::-1]
    return path.removesuffix(other) + wanted if path.endswith(other) and not path.endswith(wanted) else path
