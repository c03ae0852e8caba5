"""What a report must not carry: secrets and texts in the place of names always, names of requests, people and machines
on request (`--hash-ids`)."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Set
from functools import cache
from typing import Any

from llmdoctor.diagnose.values import Diagnosis
from llmdoctor.redact import TEXT, hash_id, mask, name
from llmdoctor.report.figures import clean

# Columns whose values name a request, a person or a machine.
_PRIVATE = frozenset(
    (
        *("request_id", "incoming_id", "response_id", "task_id", "trace_id", "span_id", "conversation_id"),
        *("idempotency_key", "batch_id", "result_id", "conn_id", "tenant", "caller", "user_agent"),
        *("instance", "upstream_instance", "worker", "hop", "host"),
    )
)
# Columns (and fields of a Diagnosis) whose values are names from the data.
_NAMED = _PRIVATE | {
    "model",
    "route",
    "vantage",
    "region",
    "app_version",
    "prompt_version",
    "provider",
    "name",
    "value",
}
_SUBJECT = re.compile(r"([a-z_]+)=(.*)", re.DOTALL)


def hidden(diagnosis: Diagnosis, hash_ids: bool = False) -> Diagnosis:
    """The same diagnosis with whatever looks like a secret masked and terminal sequences removed, in every string, and
    with "[text]" for every name from the data that is none but a text.

    With `hash_ids` the values of id, tenant, caller and host columns become short stable hashes wherever they are
    quoted, and the snippets of rejected lines are left out.
    """
    safe: Diagnosis = _walk(diagnosis, cache(lambda text: mask(clean(text))))
    texts = {text for text in _names(safe, _NAMED) if name(text) == TEXT}
    safe = _replaced(safe, texts, lambda _: TEXT) if texts else safe
    return _hashed(safe) if hash_ids else safe


def _hashed(diagnosis: Diagnosis) -> Diagnosis:
    without = tuple(
        dataclasses.replace(file, examples=tuple((line, reason, "(hidden)") for line, reason, _ in file.examples))
        for file in diagnosis.inputs
    )
    return _replaced(dataclasses.replace(diagnosis, inputs=without), set(_names(diagnosis, _PRIVATE)), hash_id)


def _replaced(diagnosis: Diagnosis, names: Set[str], by: Callable[[str], str]) -> Diagnosis:
    """The same diagnosis with others in the place of these names, wherever they are quoted."""
    # A short name ("1", "a") would tear words apart in sentences: it is replaced only where it stands alone.
    loose = sorted((name for name in names if len(name) > 3 or not name.isalnum()), key=lambda name: (-len(name), name))
    pattern = re.compile("(?<![A-Za-z0-9_])(?:" + "|".join(map(re.escape, loose)) + ")(?![A-Za-z0-9_])")

    def replace(text: str) -> str:
        if text in names:
            return by(text)
        subject = _SUBJECT.fullmatch(text)
        if subject and subject[2] in names:
            return f"{subject[1]}={by(subject[2])}"
        return pattern.sub(lambda found: by(found[0]), text) if loose else text

    changed: Diagnosis = _walk(diagnosis, replace)
    return changed


def _names(value: Any, columns: Set[str]) -> Iterator[str]:
    """Every value that stands in one of these columns, anywhere in the diagnosis."""
    if isinstance(value, str):
        subject = _SUBJECT.fullmatch(value) if "=" in value else None
        if subject and subject[1] in columns and subject[2]:
            yield subject[2]
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _names(inner, columns)
    else:
        known = (
            value if isinstance(value, Mapping) else {name: getattr(value, name) for name in _fields(value.__class__)}
        )
        for key, inner in known.items():
            if key in columns and isinstance(inner, str) and inner:
                yield inner
            yield from _names(inner, columns)


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    """The same shape with every string (values and keys of mappings alike) changed; other values as they are."""
    result: Any = value
    if isinstance(value, str):
        result = change(value)
    elif isinstance(value, Mapping):
        result = {_walk(key, change): _walk(inner, change) for key, inner in value.items()}
    elif isinstance(value, (tuple, list)):
        result = type(value)(_walk(inner, change) for inner in value)
    elif names := _fields(value.__class__):
        result = type(value)(**{name: _walk(getattr(value, name), change) for name in names})
    return result


@cache
def _fields(kind: type) -> tuple[str, ...]:
    """Names of the fields of a dataclass, none for other types: a log of ten thousand files has as many to walk."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()
