"""The secrets in a file, counted per kind; the secrets themselves are never kept.

Nearly all bytes of nearly all logs hold none. So a few short literals are searched for in each block first; a line with
one, and with what must stand there, is held against the patterns of `redact.KINDS`, the same that mask every output.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from llmdoctor.ingest.unpack import Unpacked
from llmdoctor.redact import KINDS
from llmdoctor.stats.lines import holds_any
from llmdoctor.store import Store

MOST = 16 << 20
"""Bytes of content looked at in one file."""

TOTAL = 64 << 20
"""Bytes looked at in all files of a run together: many files share it evenly, but each gets LEAST."""

LEAST = 1 << 20

_LONGEST = 4 << 20
_OVERLAP = 8 << 10


@dataclass(frozen=True)
class Exposed:
    """One kind of secret in one file: how many lines hold one, and the first of them (1-based)."""

    kind: str
    lines: int
    first_line: int


@dataclass(frozen=True)
class Looked:
    """What a look at one file found, in the order of the first lines; `whole` is false where only the first `bytes` of
    its content were looked at."""

    kinds: tuple[Exposed, ...]
    bytes: int
    whole: bool


@dataclass(frozen=True)
class _Test:
    """A kind of `redact.KINDS` as it is looked for in bytes."""

    rank: int
    pattern: re.Pattern[bytes]
    near: re.Pattern[bytes] | None

    def at(self, data: bytes, hint: int) -> re.Match[bytes] | None:
        """The match that holds the hint, None without one."""
        back = KINDS[self.rank].back
        if not back:
            return self.pattern.match(data, hint)
        if self.near and not self.near.match(data, hint):
            return None
        found = self.pattern.search(data, max(data.rfind(b"\n", 0, hint) + 1, hint - back), hint + 256)
        return found if found and found.start() <= hint < found.end() else None

    def sure(self, found: re.Match[bytes]) -> bool:
        """Whether the match is certain enough to be counted."""
        lead = found[1] if self.pattern.groups else b""
        rest = found[0][len(lead) :]
        return KINDS[self.rank].sure(lead.decode("utf-8", "replace"), rest.decode("utf-8", "replace"))


def _tests() -> dict[bytes, list[_Test]]:
    """Hint -> the kinds that it may stand for."""
    found: dict[bytes, list[_Test]] = {}
    for rank, kind in enumerate(KINDS):
        pattern = re.compile(kind.pattern.pattern.encode(), kind.pattern.flags & ~re.UNICODE)
        test = _Test(rank, pattern, re.compile(kind.near.encode()) if kind.near else None)
        for hint in kind.hints:
            found.setdefault(hint, []).append(test)
    return found


_TESTS = _tests()


def look(file: Unpacked, most: int = MOST) -> Looked:
    """One pass over at most `most` bytes of the content."""
    tally = _Tally()
    size, rest, whole = 0, b"", True
    for block in file.blocks():
        whole = size + len(block) <= most
        taken = block[: most - size]
        size += len(taken)
        piece, rest = _split(rest + taken)
        tally.count(piece)
        if not whole:
            break
    tally.count(rest)
    found = [Exposed(kind, lines, tally.first[kind]) for kind, lines in tally.lines.items()]
    return Looked(tuple(sorted(found, key=lambda one: (one.first_line, one.kind))), size, whole)


def look_at(files: Mapping[int, Unpacked], total: int = TOTAL) -> dict[int, Looked]:
    """`look` for each file by its number; together at most about `total` bytes."""
    each = max(min(MOST, total // max(len(files), 1)), LEAST)
    return {number: look(file, each) for number, file in files.items()}


def write(store: Store, found: Mapping[int, Looked]) -> None:
    """Fills `secrets`; files not looked at whole say so in the note of their row in `inputs`, which must be there."""
    store.insert(
        "secrets",
        ("input_id", "kind", "count", "first_line"),
        [(number, one.kind, one.lines, one.first_line) for number, looked in found.items() for one in looked.kinds],
    )
    for number, looked in found.items():
        if not looked.whole:
            part = f"{looked.bytes >> 20:,} MiB" if looked.bytes >= 1 << 20 else f"{looked.bytes:,} bytes"
            note = f"only the first {part} were searched for secrets"
            store.run("update inputs set note = concat_ws('; ', note, ?) where input_id = ?", [note, number])


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Whole lines and what follows them; of a line that does not end, all but what a secret may still go on in."""
    end = data.rfind(b"\n") + 1
    if end == 0 and len(data) > _LONGEST:
        end = len(data) - _OVERLAP
    return data[:end], data[end:]


@dataclass
class _Tally:
    """Lines with a secret, kind by kind. `line` is the one on which the next piece begins; where it began in an earlier
    piece, `counted` are the kinds that it has counted for."""

    line: int = 1
    counted: set[str] = field(default_factory=set)
    lines: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def count(self, piece: bytes) -> None:
        """A piece that is whole lines, or (then without a line feed) a part of one."""
        before = 0
        for start, found in sorted(_candidates(piece).items()):
            self.line += piece.count(b"\n", before, start)
            before = start
            if start > 0:
                self.counted = set()
            for kind in _certain(found) - self.counted:
                self.lines[kind] += 1
                self.first.setdefault(kind, self.line)
                self.counted.add(kind)
        self.line += piece.count(b"\n", before)
        if piece.endswith(b"\n"):
            self.counted = set()


_Found = tuple[int, int, int, bool]
"""Rank of the kind, first and last position, whether it is certain."""


def _candidates(piece: bytes) -> dict[int, list[_Found]]:
    """Start of each line that may hold secrets -> what matches there."""
    low = piece.lower()
    found: dict[int, list[_Found]] = {}
    if not holds_any(low, _TESTS):
        return found
    for hint, tests in _TESTS.items():
        at = low.find(hint)
        while at >= 0:
            after = at + len(hint)
            for test in tests:
                match = test.at(piece, at)
                if match:
                    one = (test.rank, match.start(), match.end(), test.sure(match))
                    found.setdefault(piece.rfind(b"\n", 0, at) + 1, []).append(one)
                    after = max(after, match.end())
            at = low.find(hint, after)
    return found


def _certain(found: list[_Found]) -> set[str]:
    """Names of the kinds that certainly stand in a line. What one kind has claimed no later one of KINDS sees."""
    claimed: list[tuple[int, int]] = []
    kinds = set()
    for rank, start, end, sure in sorted(found):
        if not any(start < last and first < end for first, last in claimed):
            claimed.append((start, end))
            if sure:
                kinds.add(KINDS[rank].name)
    return kinds
