"""Which format page fits a file, and why: a look at some of its records, told in words."""

import csv
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from llmdoctor.errors import StoreError
from llmdoctor.ingest import envelope, layouts, sniff
from llmdoctor.ingest.fit import Candidate, ranked
from llmdoctor.ingest.formats import Format, load_formats
from llmdoctor.ingest.objects import parsed
from llmdoctor.ingest.recipe import KIND, Found, Join, Recipe, applied
from llmdoctor.ingest.records import Content, Shape, dated, repaired
from llmdoctor.ingest.spellings import learned
from llmdoctor.ingest.unpack import Packing, Unpacked

Records = list[dict[str, Any]]


@dataclass(frozen=True)
class Detection:
    """What a file is. `candidates` best first; without one, `reason` says what the file is instead. `faulty`: some of
    the lines looked at are no JSON; `whole`: all lines were looked at. `keys`: those of the records looked at.
    `sample`: some of these records."""

    content: Content
    candidates: tuple[Candidate, ...]
    reason: str
    faulty: bool = False
    whole: bool = False
    keys: frozenset[str] = frozenset()
    sample: tuple[Mapping[str, Any], ...] = ()

    @property
    def format(self) -> Format | None:
        """The page to read it with."""
        return self.candidates[0].format if self.candidates else None


def detect(path: Path, formats: Sequence[Format] | None = None, forced: Format | None = None) -> Detection:
    """Looks at a file. With `forced` the page is given and only the layout is looked at."""
    pages = (forced,) if forced else tuple(load_formats() if formats is None else formats)
    try:
        return _looked_at(path, pages, forced)
    except OSError as error:
        return _nothing(path, "plain", "empty", f"cannot be read ({error.strerror})")


def _looked_at(path: Path, pages: Sequence[Format], forced: Format | None) -> Detection:
    packing, encoding, sample = sniff.look(path)
    if not sample:
        return _nothing(path, packing, "empty", _why_empty(path, packing))
    if sample.startswith((b"PAR1", b"SQLite format 3")):
        return _table(path, packing, sample, pages, forced)
    if sniff.is_binary(sample):
        return _nothing(path, packing, "binary", "binary file, not a log")
    lines = sniff.sample_lines(path, packing, encoding, sample)
    content = Content(path, packing, "lines", encoding=encoding)
    if sniff.is_metrics(lines):
        return _metrics(path, packing, lines, pages)
    if sample.strip():
        found = _of_text(content, sample, lines, pages, forced)
    else:
        found = Detection(replace(content, shape="text"), (), "blank lines only")
    if len(sample) < sniff.SAMPLE and len(lines) < sniff.FEW:
        found = replace(found, whole=True)
    if encoding == "utf-8" or not found.candidates:
        return found
    return replace(found, reason=f"{found.reason}; written in {encoding.upper()}")


def _why_empty(path: Path, packing: Packing) -> str:
    if path.stat().st_size == 0:
        return "empty file"
    file = Unpacked(path, packing)
    if next(file.blocks(), None):
        return "binary file: zero bytes only"
    return f"nothing can be unpacked: {file.broken}" if file.broken else f"empty file, packed with {packing}"


def _nothing(path: Path, packing: Packing, shape: Shape, reason: str) -> Detection:
    return Detection(Content(path, packing, shape), (), reason)


def _metrics(path: Path, packing: Packing, lines: Sequence[bytes], pages: Sequence[Format]) -> Detection:
    content = Content(path, packing, "prometheus")
    for page in pages:
        if page.shape == "prometheus":
            wanted = tuple(key[:-1].encode() for group in page.any_of for key in group if key.endswith("*"))
            hits = sum(line.startswith(wanted) for line in lines)
            if hits:
                names = tuple(key for group in page.any_of for key in group)
                return Detection(content, (Candidate(page, hits, len(lines), names),), f"metrics of {page.title}")
    return Detection(Content(path, packing, "text"), (), "metrics, but none of an LLM server")


def _table(path: Path, packing: Packing, sample: bytes, pages: Sequence[Format], forced: Format | None) -> Detection:
    """Parquet, or the table of a SQLite file whose columns fit best."""
    shape: Shape = "parquet" if sample.startswith(b"PAR1") else "sqlite"
    if packing != "plain":
        return _nothing(path, packing, "binary", f"a {packing} file with a {shape} file in it: unpack it first")
    try:
        tables = {"": layouts.parquet_head(path)} if shape == "parquet" else layouts.sqlite_tables(path)
    except (StoreError, sqlite3.Error) as error:
        return _nothing(path, packing, "binary", f"a damaged {shape} file ({error})")
    found = [
        (_judged(Content(path, packing, shape, table=name), rows, pages, forced), len(rows))
        for name, rows in sorted(tables.items())
    ]
    fitting = [(one, rows) for one, rows in found if one.candidates and one.candidates[0].hits]
    if not fitting:
        return _nothing(path, packing, "binary", f"a {shape} file, but no format page fits its columns")
    best, _ = max(fitting, key=lambda one: (not _generic(one[0]), len(one[0].candidates[0].keys), one[1]))
    kind = f"{shape} table {best.content.table}" if best.content.table else shape
    return replace(best, reason=f"{kind}: {best.reason}")


def _generic(one: Detection) -> bool:
    return one.format is None or one.format.generic


def _rare(one: Detection) -> bool:
    return 2 * one.candidates[0].hits < one.candidates[0].looked_at


def _of_text(
    content: Content, sample: bytes, lines: Sequence[bytes], pages: Sequence[Format], forced: Format | None
) -> Detection:
    shape = sniff.json_shape(sample, lines)
    if shape == "values":
        content = replace(content, shape="values")
        return _judged(content, _first_records(content), pages, forced)
    kinds = () if sniff.is_table(lines) else envelope.kinds(lines)
    content = replace(content, envelopes=kinds) if kinds else content
    inside = (
        list(dated(envelope.peeled(enumerate(lines, 1), kinds), content.path))
        if kinds
        else [envelope.Line(0, line) for line in lines]
    )
    objects = [(line, parsed(line.text)) for line in inside]
    count = sum(values is not None for _, values in objects)
    text = _matching_text(content, [line.text for line in inside], pages) if count * 3 < len(inside) else None
    if text and text.candidates[0].hits > count:
        return text
    if count:
        records = [envelope.stamped(values, line.at) for line, values in objects if values is not None]
        return _json_lines(content, inside, records, pages, forced)
    return _no_json(content, inside, pages, forced)


def _first_records(content: Content) -> Records:
    if content.recipe.idle:
        return content.first(200)
    records: Records = []
    for record in content.records():
        if len(records) >= 200 or record.reason:
            break
        if (values := parsed(record.text)) is not None:
            records.append(values)
    return records


def _json_lines(
    content: Content, lines: Sequence[envelope.Line], records: Records, pages: Sequence[Format], forced: Format | None
) -> Detection:
    """Lines of JSON, some of which nginx may have made invalid."""
    faulty = len(records) < len(lines)
    mended: Records = []
    if faulty and not content.envelopes:
        mended = [v for line in lines if parsed(line.text) is None and (v := parsed(repaired(line.text))) is not None]
    found = _judged(content, records + mended, pages, forced)
    repair = bool(mended) and found.format is not None and found.format.repair
    if not faulty:
        return found
    return replace(found, content=replace(found.content, repair=repair), faulty=True)


def _no_json(
    content: Content, lines: Sequence[envelope.Line], pages: Sequence[Format], forced: Format | None
) -> Detection:
    """Text that is no JSON as it stands: JSON that nginx made invalid, key=value, CSV, or lines that a page knows."""
    texts = [line.text for line in lines]
    mended = [values for line in texts[:200] if (values := parsed(repaired(line))) is not None]
    if len(mended) * 10 >= 3 * min(len(texts), 200):
        return replace(_judged(replace(content, repair=True), mended, pages, forced), faulty=True)
    tries = [
        _matching_text(content, texts, pages),
        _of_pairs(content, lines, pages, forced),
        _of_csv(content, texts, pages, forced),
    ]
    fitting = [one for one in tries if one and one.candidates and one.candidates[0].hits]
    # A page that knows most lines whole knows more of them than one that knows some of their key=value pairs.
    found = min(fitting, key=lambda one: (_generic(one), _rare(one)), default=None)
    found = found or _of_some_lines(content, lines, pages, forced)
    return found or _nothing(content.path, content.packing, "text", "text without JSON records; no format page fits")


def _of_some_lines(
    content: Content, lines: Sequence[envelope.Line], pages: Sequence[Format], forced: Format | None
) -> Detection | None:
    """A log of text of which some lines end with a record: the others are talk of the same program."""
    if len(content.envelopes) >= envelope.DEEPEST:
        return None
    inside = envelope.peeled(((line.number, line.text) for line in lines), ("prefix",))
    records = [envelope.stamped(values, line.at) for line in inside if (values := parsed(line.text)) is not None]
    if len(records) < 3:
        return None
    found = _judged(replace(content, envelopes=(*content.envelopes, "prefix")), records, pages, forced)
    if not found.candidates or not found.candidates[0].hits:
        return None
    return replace(found, faulty=True)


def _of_pairs(
    content: Content, lines: Sequence[envelope.Line], pages: Sequence[Format], forced: Format | None
) -> Detection | None:
    found = [pairs for line in lines[:200] if len(pairs := layouts.pairs(line)) > 2]
    if len(found) * 2 < len(lines[:200]):
        return None
    return _judged(replace(content, shape="pairs"), found, pages, forced)


def _of_csv(
    content: Content, lines: Sequence[bytes], pages: Sequence[Format], forced: Format | None
) -> Detection | None:
    first = lines[0].decode("utf-8-sig", "replace").split("\r", 1)[0] if lines else ""
    delimiter = max(",;\t|", key=first.count)
    header = next(csv.reader([first], delimiter=delimiter), [])
    if len(header) < 2 or content.envelopes:
        return None
    content = replace(content, shape="csv", delimiter=delimiter)
    empty = dict.fromkeys((name.strip() for name in header), "")
    found = _judged(content, [{**empty, **row} for row in _first_records(content)] or [empty], pages, forced)
    if not found.candidates or not (found.candidates[0].hits or forced):
        return None
    return replace(found, reason=f"CSV whose header has {', '.join(found.candidates[0].keys)}")


def _matching_text(content: Content, lines: Sequence[bytes], pages: Sequence[Format]) -> Detection | None:
    """The page of shape text that knows most of the lines."""
    texts = [line.decode("utf-8", "replace").rstrip("\r") for line in lines]
    found = []
    for page in pages:
        if page.shape == "text":
            records = [values for text in texts if (values := page.recipe.matched(text)) is not None]
            kinds = Counter(str(record[KIND]) for record in records)
            wanted = {name for group in page.any_of for name in group}
            if records and (not wanted or wanted & kinds.keys()):
                names = tuple(name for name, _ in kinds.most_common(4))
                found.append((Candidate(page, len(records), len(texts), names), records))
    if not found:
        return None
    found.sort(key=lambda one: (-one[0].hits, one[0].format.id))
    best, records = found[0]
    content = replace(content, shape="text", recipe=best.format.recipe)
    sample = _cooked(content, records, best.format.recipe)
    keys = frozenset().union(*records, *sample)
    return Detection(content, tuple(one for one, _ in found), best.reason, keys=keys, sample=tuple(sample[:200]))


def _cooked(content: Content, records: Records, recipe: Recipe) -> Records:
    """What the recipe makes of some records."""
    if recipe.idle:
        return records
    newest = content.path.stat().st_mtime
    return [one.values for one in applied((Found(0, dict(record)) for record in records), recipe, newest)]


def _judged(content: Content, records: Records, pages: Sequence[Format], forced: Format | None) -> Detection:
    """The page that fits records best, and what has to be done for it: exports opened, texts read, lines joined."""
    content, records = _unpacked_exports(content, records)
    found = tuple(ranked(records, pages, forced))
    if not found or not found[0].hits:
        for path in _arrays(records):
            each = Recipe(each=(path,))
            inner = _judged(replace(content, recipe=each), _cooked(content, records, each), pages, forced)
            if inner.candidates and inner.candidates[0].hits:
                return replace(inner, reason=f"{inner.reason} (elements of {path})")
    if not found:
        return Detection(content, (), "JSON, but no format page fits its keys")
    if found[0].format.spellings:
        found = (_learned(found[0], records), *found[1:])
    recipe = _needed(found[0].format, records)
    sample = _cooked(content, records[:200], recipe)
    keys = frozenset().union(*records, *sample)
    if content.recipe.each or not recipe.idle:
        content = replace(content, recipe=replace(recipe, each=(*content.recipe.each, *recipe.each)))
    return Detection(content, found, found[0].reason, keys=keys, sample=tuple(sample[:200]))


def _learned(best: Candidate, records: Records) -> Candidate:
    """The page for home-made logs with the places that the spelling of the keys shows."""
    page = learned(best.format, records)
    if page is best.format:
        return best
    again = ranked(records, [page], None)
    return again[0] if again else best


def _unpacked_exports(content: Content, records: Records) -> tuple[Content, Records]:
    """Objects of a collector's export give way to what they carry."""
    if content.shape == "lines" and not content.recipe.each:
        return content, records
    inner = [
        envelope.stamped(values, one.at)
        for record in records
        if (one := envelope.of_record(record)) and (values := parsed(one.text)) is not None
    ]
    if not inner or len(inner) * 4 < len(records):
        return content, records
    return replace(content, envelopes=("json",), wrapped=bool(content.recipe.each)), inner


def _needed(page: Format, records: Records) -> Recipe:
    """What the page asks for, without what these records do not need: reading them as they stand is much faster."""
    recipe = page.recipe
    if recipe.idle and not page.generic:
        return recipe
    inside = tuple(
        key
        for key in recipe.inside
        if recipe.opens
        or any(isinstance(text := record.get(key), str) and text.lstrip()[:1] in ("{", "[") for record in records)
    )
    join = recipe.join or (_paired(page, records) if page.generic else None)
    return replace(recipe, inside=inside, join=join)


def _paired(page: Format, records: Records) -> Join | None:
    """Several lines of one request, as many applications write them: the same id two to four times, first always one
    message and at last always another."""
    for alias in page.fields.get("request_id", ()):
        by_id: dict[Any, list[Mapping[str, Any]]] = {}
        for record in records:
            if isinstance(value := record.get(alias.root), str | int):
                by_id.setdefault(value, []).append(record)
        groups = [group for group in by_id.values() if 2 <= len(group) <= 4]
        if len(groups) < 3 or len(groups) * 10 < 6 * len(by_id):
            continue
        for message in page.fields.get("message", ()):
            kinds = Counter((str(one[0].get(message.root)), str(one[-1].get(message.root))) for one in groups)
            (first, last), count = kinds.most_common(1)[0]
            if first != last and "None" not in (first, last) and count * 10 >= 6 * len(groups):
                ends = {b for a, b in kinds if a == first}
                return Join(by=(alias.root,), kind=message.root, begins=frozenset({first}), ends=frozenset(ends))
    return None


def _arrays(records: Records) -> list[str]:
    """Paths of lists of objects inside the first records, the longest first."""
    found: Counter[str] = Counter()
    for record in records[:20]:
        places = [(key, value) for key, value in record.items()]
        places += [
            (f"{key}.{k}", v) for key, value in record.items() if isinstance(value, dict) for k, v in value.items()
        ]
        for path, value in places:
            if isinstance(value, list) and value and all(isinstance(one, dict) for one in value[:20]):
                found[path] += len(value)
    return [path for path, _ in found.most_common(5)]
