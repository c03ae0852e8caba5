"""What holds one of several words: polars looks for all of them in one pass."""

from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl


def lines_with(path: Path, words: Sequence[str], most: int) -> list[tuple[int, str]]:
    """(0-based number, text) of each line of a plain or packed text file that holds one of the words, the first `most`
    of them. Empty where polars cannot read the file: it takes UTF-8 only."""
    lines = pl.scan_lines(path, name="text", row_index_name="line", glob=False)
    try:
        return lines.filter(pl.col("text").str.contains_any(list(words))).head(most).collect().rows()
    except (pl.exceptions.PolarsError, OSError):
        return []


def holds_any(text: bytes, words: Collection[bytes]) -> bool:
    """Whether one of the words may stand in a text: of one that is no UTF-8 it is not known."""
    try:
        whole = pl.Series([text.decode()])
    except UnicodeDecodeError:
        return True
    return bool(whole.str.contains_any([word.decode() for word in words]).any())
