"""The text for a ticket in the markup of Jira, in which nothing from the data is markup."""

import re
from collections.abc import Sequence

from llmdoctor.diagnose.values import Diagnosis
from llmdoctor.report import figures, ticket

# Whatever begins or ends an effect, a link, a mention, a macro, a table or a picture in Jira's notation.
# A hyphen within a word is none but a hyphen.
_SPECIAL = re.compile(r"([\\{}\[\]*_+^~?!|#@<>&]|(?<![^\W_])-|-(?![^\W_]))")
_SCHEME = re.compile(r"://|www\.|mailto:", re.IGNORECASE)
_SPAN = re.compile(r"`([^`\n]+)`")


def escaped(text: str, longest: int = 400) -> str:
    """Text from data or a page on one line, every special character after a backslash, and no address whole enough to
    become a link. Code spans become monospaced."""
    pieces = []
    for number, piece in enumerate(_SPAN.split(figures.cut(figures.line(text).replace(figures.NBSP, " "), longest))):
        pieces.append(code(piece) if number % 2 else _plain(piece))
    return "".join(pieces)


def code(text: str, longest: int = 120) -> str:
    """A name from data, monospaced."""
    return f"{{{{{_plain(figures.cut(figures.line(text), longest)) or ' '}}}}}"


def _plain(text: str) -> str:
    unlinked = _SCHEME.sub(lambda found: f"{found[0]} " if found[0].endswith((".", ":")) else ": //", text)
    return _SPECIAL.sub(r"\\\1", unlinked)


def _kept(rows: Sequence[str]) -> list[str]:
    return ["{noformat}", *rows, "{noformat}"]


_JIRA = ticket.Dialect(
    text=escaped,
    code=code,
    bold=lambda text: f"*{text}*",
    item=lambda level: ["* ", "#* ", "#** "][level - 1],
    number=lambda _: "# ",
    block=_kept,
)


def render(diagnosis: Diagnosis) -> str:
    """The same as the Markdown text, less than 4,000 characters."""
    return ticket.render(diagnosis, _JIRA)
