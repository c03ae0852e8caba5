"""Compressed or plain bytes -> lines. The packing is told by the first bytes, never by the name."""

import bz2
import codecs
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

Packing = Literal["plain", "gzip", "zstd", "bz2", "xz", "lz4"]

BLOCK = 1 << 20
"""Bytes read at a time."""

_STEP = 16 << 10
"""Compressed bytes unpacked at a time: of much repetition they give megabytes."""

_TINY = 16

_HUGE = 32 << 20
"""Bytes kept of a line; a log that was cut while its writer went on may begin with gigabytes of zeros."""


class _Count:
    """Bytes of all files that Python has read so far; for a sign of life only."""

    bytes = 0


READ = _Count()

_MAGIC: tuple[tuple[bytes, Packing], ...] = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bz2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
)


def packing_of(path: Path) -> Packing:
    """How the file is compressed."""
    with path.open("rb") as file:
        head = file.read(8)
    return next((packing for magic, packing in _MAGIC if head.startswith(magic)), "plain")


_BROKEN = (EOFError, OSError, zlib.error, lzma.LZMAError)


class Unpacked:
    """The bytes of one file, block by block, in UTF-8 whatever the `encoding` of the file. After the iteration `broken`
    tells in words where the compression broke off; what came before has been given."""

    def __init__(self, path: Path, packing: Packing, encoding: str = "utf-8") -> None:
        self.path, self.packing, self.encoding = path, packing, encoding
        self.broken: str | None = None

    def blocks(self) -> Iterator[bytes]:
        """Non-empty blocks in order; ends early, with `broken` set, where the compressed data do."""
        if self.encoding == "utf-8":
            yield from self._raw()
            return
        decoder = codecs.getincrementaldecoder(self.encoding)("replace")
        for block in self._raw():
            if text := decoder.decode(block):
                yield text.encode("utf-8", "replace")
        if text := decoder.decode(b"", True):
            yield text.encode("utf-8", "replace")

    def _raw(self) -> Iterator[bytes]:
        self.broken = None
        try:
            with self.path.open("rb", buffering=0) as file:
                if self.packing == "plain":
                    for block in iter(lambda: file.read(BLOCK), b""):
                        READ.bytes += len(block)
                        yield block
                else:
                    yield from _members(file, self.packing)
        except Exception as error:
            if not isinstance(error, _BROKEN) and not _of_a_codec(error):
                raise
            told = error.strerror if self.packing == "plain" and isinstance(error, OSError) else None
            self.broken = (
                f"cannot be read any more ({told})"
                if told
                else f"{self.packing} data end early or are damaged ({error})"
            )

    def lines(self) -> Iterator[bytes]:
        """Physical lines without their line feed, the last one also when it has none. Of a line longer than any that is
        read, enough is given to show that."""
        rest: list[bytes] = []
        size = 0
        for block in self.blocks():
            head, newline, tail = block.partition(b"\n")
            size += len(head)
            if size <= _HUGE or not rest:
                rest.append(head)
            if not newline:
                continue
            yield b"".join(rest)
            parts = tail.split(b"\n")
            rest = [parts.pop()]
            size = len(rest[0])
            yield from parts
        if last := b"".join(rest):
            yield last


def _of_a_codec(error: Exception) -> bool:
    """zstandard and lz4 have errors of their own, and are imported only where they are needed."""
    return type(error).__name__ == "ZstdError" or (isinstance(error, RuntimeError) and "LZ4" in str(error))


def count_lines(file: Unpacked) -> tuple[int, bool]:
    """Number of physical lines, and whether the last one has its line feed."""
    if file.packing == "plain" and file.encoding == "utf-8":
        try:
            return _count_plain(file.path)
        except OSError:
            pass  # gone or cut meanwhile; what follows says so
    lines, last = 0, b"\n"
    for block in file.blocks():
        lines += block.count(b"\n")
        last = block[-1:]
    return lines + (last != b"\n"), last == b"\n"


def _count_plain(path: Path) -> tuple[int, bool]:
    """The iterator of a file finds line feeds twice as fast as `bytes.count`."""
    with path.open("rb", buffering=1 << 18) as stream:
        if stream.read(64) == b"\0" * 64:
            raise OSError("a hole that may be larger than the memory")
        stream.seek(0)
        lines = sum(1 for _ in stream)
        if not lines:
            return 0, True
        stream.seek(-1, 2)
        return lines, stream.read(1) == b"\n"


def count_with_blanks(file: Unpacked) -> tuple[int, int]:
    """Number of physical lines, and how many of them hold nothing but white space."""
    lines = blank = 0
    for line in file.lines():
        lines += 1
        blank += not line.strip()
    return lines, blank


def head(path: Path, packing: Packing, size: int, encoding: str = "utf-8") -> bytes:
    """The first `size` bytes of the content, fewer where the file is short or damaged; without the zeros that stand for
    what was cut off a log whose writer went on at its old place."""
    found = b""
    for block in Unpacked(path, packing, encoding).blocks():
        hole = not found and block.startswith(b"\0" * 64)
        found += block.lstrip(b"\0") if hole else block
        if len(found) >= size:
            break
    return found[:size]


def _members(file: BinaryIO, packing: Packing) -> Iterator[bytes]:
    """Member after member (frame after frame); EOFError where the last one is cut. The readers of the standard library
    would lose the last block of a cut file, that of zstandard would end silently."""
    member, fresh, begin = _unpacker(packing), True, 0
    while data := file.read(_STEP):
        READ.bytes += len(data)
        while data:
            good = file.tell() - len(data)
            try:
                plain = member.decompress(data)
            except Exception:
                yield from _before_damage(file, packing, range(begin, good), data)
                raise
            fresh, data = False, b""
            if member.eof:
                # Some writers pad with zeros.
                data, member, fresh = (member.unused_data or b"").lstrip(b"\0"), _unpacker(packing), True
                begin = file.tell() - len(data)
            if plain:
                yield plain
    if not fresh:
        raise EOFError("the end is missing")


def _before_damage(file: BinaryIO, packing: Packing, good: range, data: bytes) -> Iterator[bytes]:
    """What the damaged `data` give before the damage: an unpacker gives all of a piece or nothing, so the member is
    unpacked once more, and `data`, which follow on its `good` bytes, in tiny pieces."""
    member = _unpacker(packing)
    file.seek(good.start)
    left = len(good)
    while left and (part := file.read(min(left, _STEP))):
        member.decompress(part)
        left -= len(part)
    for start in range(0, len(data), _TINY):
        try:
            plain = member.decompress(data[start : start + _TINY])
        except Exception:  # each codec has its own; the caller raises the first one again
            return
        if plain:
            yield plain


def _unpacker(packing: Packing) -> Any:
    if packing == "gzip":
        return zlib.decompressobj(wbits=31)
    if packing == "bz2":
        return bz2.BZ2Decompressor()
    if packing == "xz":
        return lzma.LZMADecompressor()
    if packing == "lz4":
        import lz4.frame  # noqa: PLC0415 - only an lz4 file pays for it

        return lz4.frame.LZ4FrameDecompressor()
    import zstandard  # noqa: PLC0415 - only a zstd file pays for it

    return zstandard.ZstdDecompressor(max_window_size=2**31).decompressobj()
