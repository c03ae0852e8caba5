"""`formats new NAME --from FILE`: a page drafted from a log of one's own, its guesses marked, its example checked.

Keys are recognised by the spellings that the page for home-made logs knows; of the values only what goes into a row
stands in the example, and what looks like a secret is masked.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from llmdoctor.errors import InputError, UsageError
from llmdoctor.ingest.detect import Detection
from llmdoctor.ingest.draft_page import checked, page_text
from llmdoctor.ingest.draft_text import draft_of_text
from llmdoctor.ingest.fields import INNER, Alias
from llmdoctor.ingest.formats import Format
from llmdoctor.ingest.preview import preview_of
from llmdoctor.ingest.recipe import AS_IT_IS
from llmdoctor.redact import mask

_COLUMNS = {"started": "started_at", "ended": "ended_at", "logged_at": "ended_at", "first_ms": "ttft_ms"}
_COLUMNS |= {"http": "http_status", "status": "outcome", "attempts": "upstream_attempts"}
_LEFT_OUT = ("user", "retries", "chunk_times", "error_text", "message", "method", "first_at", "then_at")
"""Fields of the page for home-made logs that are no column as they stand."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_MOST = 8


def draft(name: str, file: Path, found: Detection, generic: Format, columns: Mapping[str, str]) -> str:
    """The text of a page. `generic` is the page for home-made logs, `columns` those of `attempts`. UsageError where the
    name is none; InputError where the file holds nothing that could become a row."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name}: a format's name is made of small letters, digits and underscores")
    if found.content.shape in ("binary", "empty", "prometheus"):
        raise InputError(f"{file}: {found.reason}: nothing to draft a page from")
    if found.content.shape == "text" or not found.sample:
        return draft_of_text(name, file, found.content)
    guessed = _guesses(found.format or generic, found.sample)
    if not guessed:
        keys = ", ".join(sorted(_leaves(found.sample))[:_MOST])
        raise InputError(f"{file}: none of its keys has a known spelling ({keys} ...); name them with --map FIELD=PATH")
    rest = sorted(path for path in _leaves(found.sample) if path not in {alias.shown for alias in guessed.values()})
    text = page_text(
        name, file, _recognised(found.sample, guessed), _json_fields(guessed, rest), _select(guessed, columns)
    )
    return text + _example(name, text, found.sample, guessed)


def _guesses(generic: Format, sample: Sequence[Mapping[str, Any]]) -> dict[str, Alias]:
    """Column -> the first known spelling that occurs in the sample."""
    found: dict[str, Alias] = {}
    for field, aliases in generic.fields.items():
        column = _COLUMNS.get(field, field)
        if field in _LEFT_OUT or column in found:
            continue
        places = [place for alias in aliases for place in _spelled_out(generic, alias)]
        known = next((place for place in places if any(_at(record, place) is not None for record in sample)), None)
        if known is not None:
            found[column] = known
    return found


def _spelled_out(generic: Format, alias: Alias) -> list[Alias]:
    """The places behind one that stands for the inner object of a home-made log."""
    if alias.root != INNER:
        return [alias]
    return [replace(alias, root=root, below=below + alias.below[1:]) for root, below in generic.nested]


def _at(record: Mapping[str, Any], alias: Alias) -> Any:
    value: Any = record.get(alias.root)
    for key, index in re.findall(r'\."([^"]+)"|\[(\d+)\]', alias.below):
        if key:
            value = value.get(key) if isinstance(value, Mapping) else None
        else:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
    return None if isinstance(value, Mapping | list) else value


def _leaves(sample: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Path of each key that holds a single value -> the kind of this value."""
    found: dict[str, str] = {}

    def walk(prefix: str, record: Mapping[str, Any], depth: int) -> None:
        for key, value in record.items():
            if key.startswith("_") and not prefix:
                continue
            if isinstance(value, Mapping) and depth < 3:
                walk(f"{prefix}{key}.", value, depth + 1)
            else:
                found.setdefault(prefix + key, type(value).__name__)

    for record in sample[:50]:
        walk("", record, 0)
    return found


def _recognised(sample: Sequence[Mapping[str, Any]], guessed: Mapping[str, Alias]) -> list[str]:
    """Keys of the top that most records have, those that fill a column first."""
    count = {root: sum(root in record for record in sample) for root in (alias.root for alias in guessed.values())}
    often = [root for root, n in count.items() if n * 10 >= 9 * len(sample)]
    return (often or list(count))[:4]


def _json_fields(guessed: Mapping[str, Alias], rest: Sequence[str]) -> str:
    width = max(map(len, guessed))
    lines = []
    for column, alias in guessed.items():
        guess = ", guess = true" if alias.guess else ""
        place = f'{{ path = "{_path(alias)}", unit = "{alias.unit}"{guess} }}'
        mark = "  # GUESS: is this the unit?" if alias.guess else ""
        mark = "  # GUESS: the end of the call?" if column == "ended_at" and not mark else mark
        lines.append(f"{column:{width}} = {place}{mark}")
    if rest:
        lines += ["", "# Not used so far:"] + [f"# {_path_of(path)}" for path in rest[:60]]
    return "\n".join(lines)


def _path(alias: Alias) -> str:
    return _path_of(alias.root) + re.sub(r'\."([\w-]+)"', r".\1", alias.below[1:]).replace('"', "'")


def _path_of(path: str) -> str:
    """As it must stand in a page: keys with dots or signs are quoted."""
    return "$." + path if re.fullmatch(r"[^\[\]\"$]+", path) else f"$.'{path}'"


def _select(names: Mapping[str, object] | Sequence[str], columns: Mapping[str, str]) -> str:
    return "select " + ",\n       ".join(name for name in names if name in columns) + "\nfrom   fields"


def _example(name: str, text: str, sample: Sequence[Mapping[str, Any]], guessed: Mapping[str, Alias]) -> str:
    """Some records without the keys that no field reads, and the rows that they give."""
    page = checked(name, text)
    records = [_only(record, guessed) for record in sample]
    shown = [record for record in records if record][:3]
    rows = sorted(
        preview_of(replace(page, recipe=AS_IT_IS), shown).rows,
        key=lambda row: (row.get("started_at") is None, row.get("started_at")),
    )
    log = "\n".join(json.dumps(record, ensure_ascii=False) for record in shown)
    expected = "\n".join(json.dumps(_printable(row, guessed), ensure_ascii=False) for row in rows)
    return f"```log\n{log}\n```\n\n```jsonl\n{expected}\n```\n"


def _printable(row: Mapping[str, Any], guessed: Mapping[str, Alias]) -> dict[str, Any]:
    kept = {name: value for name, value in row.items() if name in guessed or name in ("outcome", "started_at")}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in kept.items()}


def _only(record: Mapping[str, Any], guessed: Mapping[str, Alias]) -> dict[str, Any]:
    """The record with the values that fields read, texts masked, and nothing else."""
    kept: dict[str, Any] = {}
    for alias in guessed.values():
        value = _at(record, alias)
        if value is None:
            continue
        value = mask(value)[:80] if isinstance(value, str) else value
        keys = [alias.root, *re.findall(r'\."([^"]+)"', alias.below)]
        inner = kept
        if "[" not in alias.below:
            for key in keys[:-1]:
                inner = inner.setdefault(key, {})
            inner[keys[-1]] = value
    return kept
