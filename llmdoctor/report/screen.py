"""Lines for a terminal of 80 columns: plain ASCII where the stream knows no more, colour if wanted."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from llmdoctor.redact import mask
from llmdoctor.report import figures
from llmdoctor.report.columns import fit, table, wrap

WIDTH = 80

_COLOURS = {"bad": "1;31", "warn": "33", "good": "32", "strong": "1", "dim": "2", "": ""}
_ASCII = {"■": "#", "▲": "!", "●": "*", "○": "-", "…": "...", "\u00a0": " ", "\u2013": "-", "\u2019": "'"}
# What a bar is drawn with: phases of an attempt, and where it ended badly.
_ASCII |= {"╌": "c", "┄": "r", "▒": "q", "▓": "p", "░": ".", "█": "#", "─": "-", "·": ".", "│": "|"}


@dataclass
class Screen:
    """Lines in the making. A style colours the first `lead` characters, or the whole line."""

    colour: bool
    ascii: bool
    lines: list[str] = field(default_factory=list)

    def say(self, text: str) -> str:
        """Text from data or a page as it may be shown: one line, no control characters, no secrets."""
        shown = mask(figures.line(text))
        return "".join(map(_letter, shown)) if self.ascii else shown

    @property
    def ellipsis(self) -> str:
        return "..." if self.ascii else "…"

    def add(self, text: str = "", style: str = "", lead: int | None = None) -> None:
        """One finished line."""
        text = "".join(map(_letter, text)) if self.ascii else text
        text = fit(text.replace("\u00a0", " "), WIDTH, self.ellipsis).rstrip()
        if self.colour and style and text:
            lead = len(text) if lead is None else lead
            text = f"\x1b[{_COLOURS[style]}m{text[:lead]}\x1b[0m{text[lead:]}"
        self.lines.append(text)

    def flow(self, text: str, first: str = "", then: str = "", style: str = "", lead: int | None = None) -> None:
        """A sentence over as many lines as it needs; the lead is coloured in the first."""
        for number, row in enumerate(wrap(self.say(text), WIDTH, first, then)):
            self.add(row, style if number == 0 or lead is None else "", lead)

    def grid(self, rows: Sequence[Sequence[str]], sides: str, shrink: Sequence[tuple[int, int]]) -> list[str]:
        """A table's lines, indented by two."""
        clean = [[self.say(cell) if cell.strip() == cell else cell for cell in row] for row in rows]
        return ["  " + row for row in table(clean, sides, WIDTH - 2, shrink, self.ellipsis)]

    def heading(self, word: str, lines: Sequence[str], styles: Sequence[str] = ()) -> None:
        """A table whose first line carries a heading; the first word of the others may have a style each."""
        self.add(word + lines[0][len(word) :], "strong")
        for number, row in enumerate(lines[1:]):
            self.add(row, styles[number] if styles else "", 12)

    def more(self, left: int, what: str, indent: str = "  ") -> None:
        """ "and N more", where there are."""
        if left > 0:
            self.add(f"{indent}and {left:,} more{what}", "dim")


def _letter(letter: str) -> str:
    return letter if letter.isascii() else _ASCII.get(letter, "?")


def is_plain(encoding: str) -> bool:
    """Whether a stream of this encoding knows ASCII only, as far as we may trust it."""
    return not encoding.lower().replace("_", "-").startswith("utf")
