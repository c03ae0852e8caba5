"""Lines of a file that hold one of several words: polars looks for all of them in one pass."""

from collections.abc import Sequence
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
