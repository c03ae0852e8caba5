"""Content codings undone piece by piece: what each piece of compressed bytes makes readable, at once.

Compressors that flush after each event make each readable with the piece that brought it; others hold back, and that
must be seen. So nothing is gathered here, and several gzip members (some servers write one an event) are all read.
"""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import brotli
import zstandard

SLICE = 512
"""Compressed bytes decoded at a time. A few bytes may stand for a gigabyte, so the caller counts after each slice."""

STEP = 1 << 20
"""Most decoded bytes given at a time, where the decoder can be bounded."""

_ZSTD_WINDOW = 1 << 27  # what the zstd command takes; a browser's limit is 8 MiB
_GZIP = b"\x1f\x8b"


class CodingError(Exception):
    """The bytes are not what the coding says. `str(error)` is a name of FRAMING_ERRORS."""


class _Decoder(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...
    def end(self) -> str | None: ...


class Decoding:
    """Undoes the codings of one Content-Encoding header value. `members` counts gzip members begun."""

    def __init__(self, content_encoding: str) -> None:
        names = [name.strip().lower() for name in content_encoding.split(",")]
        names = [name.removeprefix("x-") for name in names if name not in ("", "identity")]
        self.unknown = any(name not in _DECODERS for name in names)
        self._steps: list[_Decoder] = [] if self.unknown else [_DECODERS[name]() for name in reversed(names)]

    @property
    def members(self) -> int | None:
        """How many gzip members began so far; None without gzip."""
        return next((step.members for step in self._steps if isinstance(step, _Gzip)), None)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What the piece makes readable, in bounded pieces. Raises CodingError, after all that was readable."""
        if not self._steps:
            yield from filter(None, (data,))
            return
        slices: Iterable[bytes] = (data[at : at + SLICE] for at in range(0, len(data), SLICE))
        for step in self._steps:
            slices = _through(step, slices)
        yield from filter(None, slices)

    def end(self) -> str | None:
        """What is wrong at the end of the body: a name of FRAMING_ERRORS, or None."""
        if self.unknown:
            return "coding_unknown"
        return next(filter(None, (step.end() for step in self._steps)), None)


def _through(step: _Decoder, pieces: Iterable[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield from step.feed(piece)


class _Gzip:
    """Any number of members, one after another. Zeros between them are padding, anything else is reported."""

    def __init__(self) -> None:
        self.members = 0
        self._trailing = False
        self._rest = b""  # fewer bytes than a member's magic
        self._member: Any = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data and not self._trailing:
            if self._member is None:
                data = self._begin(data)
                continue
            yield from _inflate(self._member, data)
            data = b""
            if self._member.eof:
                data, self._member = self._member.unused_data, None

    def _begin(self, data: bytes) -> bytes:
        data, self._rest = self._rest + data, b""
        if self.members:
            data = data.lstrip(b"\0")
        if not _GZIP.startswith(data[: len(_GZIP)]):
            if not self.members:
                raise CodingError("coding_broken")
            self._trailing = True
            return b""
        if len(data) < len(_GZIP):
            self._rest = data
            return b""
        self._member, self.members = zlib.decompressobj(wbits=31), self.members + 1
        return data

    def end(self) -> str | None:
        if self._trailing:
            return "coding_trailing"
        return "coding_cut" if self._member is not None or self._rest else None


class _Deflate:
    """zlib's wrapping as the standard wants it, or bare deflate data as some servers send; its first two bytes tell."""

    def __init__(self) -> None:
        self._rest = b""
        self._stream: Any = None
        self._trailing = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        data, self._rest = self._rest + data, b""
        if self._stream is None:
            if len(data) < 2:
                self._rest = data
                return
            wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._stream = zlib.decompressobj(wbits=15 if wrapped else -15)
        if self._stream.eof:
            self._trailing = True
            return
        yield from _inflate(self._stream, data)
        self._trailing = bool(self._stream.unused_data)

    def end(self) -> str | None:
        if self._trailing:
            return "coding_trailing"
        return "coding_cut" if self._rest or (self._stream is not None and not self._stream.eof) else None


def _inflate(stream: Any, data: bytes) -> Iterator[bytes]:
    try:
        while data:
            yield stream.decompress(data, STEP)
            data = stream.unconsumed_tail
    except zlib.error as error:
        raise CodingError("coding_broken") from error


class _Brotli:
    def __init__(self) -> None:
        self._stream, self._fed, self._trailing = brotli.Decompressor(), False, False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._stream.is_finished():
            self._trailing = self._trailing or bool(data)
            return
        self._fed = self._fed or bool(data)
        try:
            yield self._stream.process(data, output_buffer_limit=STEP)
            while not self._stream.can_accept_more_data():
                yield self._stream.process(b"", output_buffer_limit=STEP)
        except brotli.error as error:
            raise CodingError("coding_broken") from error

    def end(self) -> str | None:
        if self._trailing:
            return "coding_trailing"
        return "coding_cut" if self._fed and not self._stream.is_finished() else None


class _Zstd:
    """Any number of frames, as RFC 8878 allows."""

    def __init__(self) -> None:
        self._frame: Any = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            self._frame = self._frame or zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
            try:
                yield self._frame.decompress(data)
            except zstandard.ZstdError as error:
                raise CodingError("coding_broken") from error
            data = b""
            if self._frame.eof:
                data, self._frame = self._frame.unused_data, None

    def end(self) -> str | None:
        return "coding_cut" if self._frame is not None else None


_DECODERS: dict[str, type[_Gzip] | type[_Deflate] | type[_Brotli] | type[_Zstd]] = {
    "gzip": _Gzip,
    "deflate": _Deflate,
    "br": _Brotli,
    "zstd": _Zstd,
}
