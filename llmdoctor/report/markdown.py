"""The text for a ticket: Markdown of less than 4,000 characters in which nothing from the data is markup."""

import re
from collections.abc import Sequence

from llmdoctor.diagnose.values import Diagnosis
from llmdoctor.report import figures, ticket
from llmdoctor.report.ticket import MOST

__all__ = ["MOST", "code", "escaped", "render"]

# A word of letters, digits and harmless punctuation stays as it is; any other becomes code, in which nothing is markup.
_PLAIN = re.compile(r"(?:[^\W_]|[,;'\"%.:/=()+!?-])+|&")
_LINK = re.compile(r"://|www\.", re.IGNORECASE)
_AROUND = re.compile(r"(\(?)(.*?)([),;.:]*)", re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")


def escaped(text: str, longest: int = 400) -> str:
    """Text from data or a page on one line: words that could be links, mentions, markup or HTML become code spans.
    Code spans of the text itself are kept."""
    pieces = []
    for number, piece in enumerate(_SPAN.split(figures.cut(figures.line(text).replace(figures.NBSP, " "), longest))):
        pieces.append(code(piece) if number % 2 else " ".join(_word(word) for word in piece.split(" ")))
    return "".join(pieces)


def code(text: str, longest: int = 120) -> str:
    """A name from data as a code span; a back tick in it becomes an apostrophe."""
    shown = figures.cut(figures.line(text), longest).replace("`", "'").replace("|", "¦").strip()
    return f"`{shown or ' '}`"


def _word(word: str) -> str:
    """The word, as code where it is not plain; the punctuation around it stays outside."""
    if not word or (_PLAIN.fullmatch(word) and not _LINK.search(word)):
        return word
    before, core, after = _AROUND.fullmatch(word).groups()  # type: ignore[union-attr]  # it matches any word
    return f"{before}{code(core)}{after}" if core else code(word)


def _fenced(rows: Sequence[str]) -> list[str]:
    return ["```text", *rows, "```"]


_MARKDOWN = ticket.Dialect(
    text=escaped,
    code=code,
    bold=lambda text: f"**{text}**",
    item=lambda level: ["- ", "   - ", "     - "][level - 1],
    number=lambda number: f"{number}. ",
    block=_fenced,
)


def render(diagnosis: Diagnosis) -> str:
    """Verdict, findings, their best causes with evidence and fix, and what could not be checked. Where that is too
    long, less of each is told; every cut list says how many are left."""
    return ticket.render(diagnosis, _MARKDOWN)
