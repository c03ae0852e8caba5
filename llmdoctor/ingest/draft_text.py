"""A page drafted from lines of text that no page knows: a group for each time, number and quoted text."""

import json
import re
from collections.abc import Iterator
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
_TOKEN = re.compile(rf'(?P<time>{_TIME})|"(?P<quoted>[^"]*)"|{_NUMBER}')


def draft_of_text(name: str, file: Path, content: Content) -> str:
    """A page of shape text: the commonest kind of line with a group for each time, number and quoted text."""
    lines = [line.decode("utf-8", "replace").strip() for _, line in _some(content)]
    shapes: dict[str, list[str]] = {}
    for line in lines:
        shapes.setdefault(_TOKEN.sub("#", line), []).append(line)
    best = max(shapes.values(), key=len, default=[])
    if len(best) < 2:
        raise InputError(f"{file}: no two of its lines have the same form: nothing to draft a page from")
    pattern, groups = _pattern(best[0])
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
    masked = [_masked(line) for line in best[:2]]
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


def _masked(line: str) -> str:
    """The line without its quoted texts and secrets."""
    return mask(re.sub(r'"[^"]*"', '"..."', line))


def _pattern(line: str) -> tuple[str, list[str]]:
    """A regular expression in verbose mode for lines like this one, and the names of its groups."""
    parts: list[str] = []
    groups: list[str] = []
    end = 0
    for match in _TOKEN.finditer(line):
        parts.append(_verbatim(line[end : match.start()]))
        end = match.end()
        kind = "time" if match["time"] else "text" if match["quoted"] is not None else "number"
        kind = "duration" if kind == "number" and match["unit"] else kind
        group = f"{kind}{sum(one.startswith(kind) for one in groups) + 1}"
        suffix = f"_{match['unit']}" if match["unit"] else ""
        groups.append(group + suffix)
        inner = {"time": _TIME, "text": '[^"]*'}.get(kind, r"\d+(?:\.\d+)?").replace(" ", r"\ ")
        quoted = '"' if kind == "text" else ""
        after = _verbatim(match["space"] or "") + (match["unit"] or "")
        parts.append(f"{quoted}(?P<{group}{suffix}>{inner}){quoted}{after}")
    return "".join(parts) + _verbatim(line[end:]), groups


def _verbatim(text: str) -> str:
    return re.escape(text).replace("'", r"\x27")


def _text_field(group: str) -> str:
    unit = group.partition("_")[2] or {"time": "time", "numb": "number"}.get(group[:4], "text")
    return f'{group} = {{ path = "$.{group}", unit = "{unit}" }}'
