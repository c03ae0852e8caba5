"""Text that fits: widths in terminal columns, cutting, wrapping and tables of plain characters."""

import unicodedata
from collections.abc import Sequence


def width(text: str) -> int:
    """Columns that a terminal needs: wide East Asian characters and emoji take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_cell, text))


def _cell(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def fit(text: str, columns: int, ellipsis: str = "…") -> str:
    """The text cut to so many columns, ending in the ellipsis where something was left out."""
    if width(text) <= columns:
        return text
    kept, room = [], columns - width(ellipsis)
    for character in text:
        room -= _cell(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + ellipsis if columns >= width(ellipsis) else ""


def pad(text: str, columns: int, side: str) -> str:
    """The text filled up with blanks: side "<" left-aligned, ">" right-aligned."""
    gap = " " * max(columns - width(text), 0)
    return gap + text if side == ">" else text + gap


def wrap(text: str, columns: int, first: str = "", then: str = "") -> list[str]:
    """Lines of at most `columns`, broken at blanks (a longer word is broken within), led by `first` and `then`."""
    lines, current, lead = [], first, first
    for word in text.split(" "):
        rest = word
        while rest:
            glue = "" if current == lead else " "
            if width(current + glue + rest) <= columns:
                current, rest = current + glue + rest, ""
            elif current != lead:
                lines.append(current)
                current = lead = then
            else:
                piece = fit(rest, columns - width(lead), "") or rest[:1]
                lines.append(lead + piece)
                rest, current, lead = rest[len(piece) :], then, then
    return [*lines, current] if current.strip() else lines


def table(
    rows: Sequence[Sequence[str]], sides: str, columns: int, shrink: Sequence[tuple[int, int]], ellipsis: str = "…"
) -> list[str]:
    """Rows as aligned lines; where they are too wide the columns of `shrink` (index, least width) give way in turn."""
    if not rows:
        return []
    widths = [max(width(row[index]) for row in rows) for index in range(len(sides))]
    for index, least in shrink:
        excess = sum(widths) + 2 * (len(widths) - 1) - columns
        if excess > 0:
            widths[index] = max(widths[index] - excess, min(least, widths[index]))
    lines = []
    for row in rows:
        cells = [
            pad(fit(cell, wide, ellipsis), wide, side) for cell, wide, side in zip(row, widths, sides, strict=True)
        ]
        lines.append(fit("  ".join(cells).rstrip(), columns, ellipsis))
    return lines
