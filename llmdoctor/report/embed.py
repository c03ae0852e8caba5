"""The Diagnosis inside the report: JSON in a data block that no browser runs, and back."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llmdoctor.errors import InputError

ID = "llmdoctor-diagnosis"
COMPARISON = "llmdoctor-comparison"

# Parts of the published form whose keys are data, not names of the schema.
_OPEN = frozenset({"bad_fields", "values", "cut_share", "settings", "considered"})
_BLOCK = re.compile(rf'<script type="application/json" id="{ID}">(.*?)</script>', re.DOTALL)
_UNSAFE = "<>&\u2028\u2029"
_LONE = re.compile("[\ud800-\udfff]")

# (longest list, longest text), tried in this order until the block is small enough.
_STEPS = ((400, 4000), (200, 4000), (120, 2000), (60, 1000), (30, 500), (15, 300), (8, 200), (4, 120), (1, 40))


def block(plain: Mapping[str, Any], most: int) -> str:
    """The text of the data block, at most `most` bytes of UTF-8: where it would be more, long lists and texts are
    cut and a key `cut` says which lost how many items."""
    text = _dump(plain)
    if most < len(text.encode()) < 2 * most and "pictures" in plain:  # only drawn from, and drawn already
        plain = {name: value for name, value in plain.items() if name != "pictures"}
        text = _dump({**plain, "cut": {"pictures": 1}})
    for longest, length in _STEPS:
        if len(text.encode()) <= most:
            break
        lost: dict[str, int] = {}
        text = _dump({**_shortened(plain, longest, length, "", lost), "cut": lost})
    return text


def size(plain: Mapping[str, Any]) -> int:
    """Bytes of the uncut block."""
    return len(_dump(plain).encode())


def _dump(plain: Mapping[str, Any]) -> str:
    """JSON that holds no `<`, `>` or `&`: neither `</script>` nor `<!--` can end or change the element."""
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for letter in _UNSAFE:
        text = text.replace(letter, _escape(letter))
    return _LONE.sub(lambda found: _escape(found[0]), text)


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}"


def _shortened(value: Any, longest: int, length: int, path: str, lost: dict[str, int]) -> Any:
    if isinstance(value, str) and len(value) > length:
        lost["texts"] = lost.get("texts", 0) + 1
        return value[: length - 1] + "…"
    if isinstance(value, Mapping):
        keys = list(value)
        if path.rpartition(".")[2] in _OPEN and len(keys) > longest:
            lost[path] = lost.get(path, 0) + len(keys) - longest
            keys = keys[:longest]
        within = f"{path}." if path else ""
        return {key[:200]: _shortened(value[key], longest, length, f"{within}{key}", lost) for key in keys}
    if isinstance(value, (list, tuple)):
        if len(value) > longest:
            lost[path] = lost.get(path, 0) + len(value) - longest
        return [_shortened(item, longest, length, path, lost) for item in value[:longest]]
    return value


def read(path: str) -> dict[str, Any]:
    """The Diagnosis of a report that stands in a file, HTML or JSON. InputError where it is none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({type(error).__name__}): give a report of llmdoctor") from error
    if not text.lstrip().startswith("{"):
        try:
            return read_back(text)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error
    try:
        plain = json.loads(text)
    except ValueError as error:
        if "llmdoctor.report/" not in text[:4096]:
            raise InputError(f"{path}: is no report: give what -o or --json wrote") from error
        raise InputError(f"{path}: the report is damaged ({type(error).__name__}): write it again") from error
    if "llmdoctor.report/" not in str(plain.get("schema")):
        raise InputError(f"{path}: is no report: give what -o or --json wrote")
    return dict(plain)


def read_back(html: str) -> dict[str, Any]:
    """The Diagnosis that a report carries, as `values.as_dict` gave it (with `cut` where it was shortened).
    InputError where the page is no llmdoctor report."""
    found = _BLOCK.search(html)
    if found is None:
        if f'id="{COMPARISON}"' in html:
            raise InputError("this is a comparison: give the report of one side, which 'llmdoctor analyze -o' wrote")
        raise InputError("no diagnosis in this page: give a report that llmdoctor wrote with -o")
    try:
        plain = json.loads(found[1])
    except ValueError as error:
        raise InputError(f"the diagnosis in this page is damaged ({error}): write the report again") from error
    if not isinstance(plain, dict):
        raise InputError("the diagnosis in this page is damaged: write the report again")
    return plain
