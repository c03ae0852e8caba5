"""A page drafted from lines of text that no page knows: a group for each time, number and quoted text."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from llmdoctor.errors import InputError
from llmdoctor.ingest.draft_page import checked, page_text
from llmdoctor.ingest.layouts import numbered
from llmdoctor.ingest.preview import preview_of
from llmdoctor.ingest.recipe import AS_IT_IS
from llmdoctor.ingest.records import Content
from llmdoctor.redact import mask

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_NUMBER = r"(?P<number>\d+(?:\.\d+)?)(?P<space> ?)(?:(?P<unit>ms|us|ns|s)\b)?(?!\w)"
_TOKEN = re.compile(rf"""(?P<time>{_TIME})|(?P<quoted>"[^"]*"|'[^']*')|{_NUMBER}""")
_OPEN = r"\S+"
_WORD = re.compile(r"\S+")


def draft_of_text(name: str, file: Path, content: Content) -> str:
    """A page of shape text: the commonest kind of line with a group for each time, number and quoted text."""
    lines = [mask(line.decode("utf-8", "replace").strip()) for _, line in _some(content)]
    shapes: dict[str, list[str]] = {}
    for line in lines:
        shapes.setdefault(_TOKEN.sub("#", line), []).append(line)
    best = max(shapes.values(), key=len, default=[])
    if len(best) < 2:
        raise InputError(f"{file}: no two of its lines have the same form: nothing to draft a page from")
    words = _words_of_the_program(lines)
    pattern, groups = _pattern(best[0], words)
    fields = "\n".join(_text_field(group) for group in groups)
    numbers = sorted(group for group in groups if group.startswith(("duration", "number")))
    if not numbers:
        raise InputError(f"{file}: its lines hold no number that could be a duration: nothing to draft a page from")
    column = numbers[0]
    time = "time1 as ended_at,\n       " if "time1" in groups else ""
    select = f"select {time}{column} as total_ms  -- GUESS\nfrom   fields"
    text = page_text(name, file, [], fields, select)
    head = text.index("needs   = []")
    text = text[:head] + 'shape   = "text"' + text[head + len("needs   = []") :]
    block = (
        f"## Lines\n\nGUESS: rename the groups to what they are.\n\n```toml\ncall = '''{pattern}'''\n```\n\n## Fields"
    )
    text = text.replace("## Fields", block, 1)
    page = checked(name, text)
    masked = [_masked(line, words) for line in best[:2]]
    records = [values for line in masked if (values := page.recipe.matched(line))]
    rows = preview_of(replace(page, recipe=AS_IT_IS), records).rows
    expected = "\n".join(json.dumps({"total_ms": row.get("total_ms")}) for row in rows)
    log = "\n".join(masked)
    return text + f"```log\n{log}\n```\n\n```jsonl\n{expected}\n```\n"


def _some(content: Content) -> Iterator[tuple[int, bytes]]:
    for number, line in numbered(content.unpacked().lines()):
        if number > 2000:
            return
        yield number, line


def _words_of_the_program(lines: Sequence[str]) -> frozenset[str]:
    """Words between the values that stand in most lines. The others may be what people wrote, and are kept out."""
    seen = Counter(word for line in lines for word in set(_WORD.findall(_TOKEN.sub(" ", line))))
    return frozenset(word for word, count in seen.items() if count * 2 > len(lines) and "[" not in word)


def _masked(line: str, words: frozenset[str]) -> str:
    """The line without its quoted texts, its secrets and the words that are not the program's."""
    parts: list[str] = []
    end = 0
    for match in [*_TOKEN.finditer(line), None]:
        literal = line[end : match.start() if match else len(line)]
        parts.append(_WORD.sub(lambda word: word[0] if word[0] in words else "...", literal))
        if match:
            quote = match[0][0]
            parts.append(f"{quote}...{quote}" if match["quoted"] is not None else match[0])
            end = match.end()
    return "".join(parts)


def _pattern(line: str, words: frozenset[str]) -> tuple[str, list[str]]:
    """A regular expression in verbose mode for lines like this one, and the names of its groups."""
    parts: list[str] = []
    groups: list[str] = []
    end = 0
    for match in _TOKEN.finditer(line):
        parts.append(_verbatim(line[end : match.start()], words))
        end = match.end()
        kind = "time" if match["time"] else "text" if match["quoted"] is not None else "number"
        kind = "duration" if kind == "number" and match["unit"] else kind
        group = f"{kind}{sum(one.startswith(kind) for one in groups) + 1}"
        suffix = f"_{match['unit']}" if match["unit"] else ""
        groups.append(group + suffix)
        quote = _escaped(match[0][0]) if kind == "text" else ""
        inner = {"time": _TIME, "text": f"[^{quote}]*"}.get(kind, r"\d+(?:\.\d+)?").replace(" ", r"\ ")
        after = _escaped(match["space"] or "") + (match["unit"] or "")
        parts.append(f"{quote}(?P<{group}{suffix}>{inner}){quote}{after}")
    return "".join(parts) + _verbatim(line[end:], words), groups


def _verbatim(text: str, words: frozenset[str]) -> str:
    """The words of the program as they stand; any word where another stood."""
    parts = re.split(r"(\s+)", text)
    return "".join(_escaped(part) if part in words or not part.strip() else _OPEN for part in parts)


def _escaped(text: str) -> str:
    return re.escape(text).replace("'", r"\x27")


def _text_field(group: str) -> str:
    unit = group.partition("_")[2] or {"time": "time", "numb": "number"}.get(group[:4], "text")
    return f'{group} = {{ path = "$.{group}", unit = "{unit}" }}'
