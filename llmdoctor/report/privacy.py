"""What a report must not carry: secrets always, names of requests, people and machines on request (`--hash-ids`)."""

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from llmdoctor.diagnose.values import Diagnosis, Example
from llmdoctor.redact import hash_id, mask
from llmdoctor.report.figures import clean

# Columns whose values name a request, a person or a machine.
_PRIVATE = frozenset(
    (
        *("request_id", "incoming_id", "response_id", "task_id", "trace_id", "span_id", "conversation_id"),
        *("idempotency_key", "batch_id", "result_id", "conn_id", "tenant", "caller", "user_agent"),
        *("instance", "upstream_instance", "worker", "hop", "host"),
    )
)
_SUBJECT = re.compile(r"([a-z_]+)=(.*)", re.DOTALL)


def hidden(diagnosis: Diagnosis, hash_ids: bool = False) -> Diagnosis:
    """The same diagnosis with whatever looks like a secret masked and terminal sequences removed, in every string.

    With `hash_ids` the values of id, tenant, caller and host columns become short stable hashes wherever they are
    quoted, and the snippets of rejected lines are left out.
    """
    safe: Diagnosis = _walk(diagnosis, cache(lambda text: mask(clean(text))))
    return _hashed(safe) if hash_ids else safe


def _hashed(diagnosis: Diagnosis) -> Diagnosis:
    names = set(_names(diagnosis))
    # A short name ("1", "a") would tear words apart in sentences: it is replaced only where it stands alone.
    loose = sorted((name for name in names if len(name) > 3 or not name.isalnum()), key=lambda name: (-len(name), name))
    pattern = re.compile("(?<![A-Za-z0-9_])(?:" + "|".join(map(re.escape, loose)) + ")(?![A-Za-z0-9_])")

    def replace(text: str) -> str:
        if text in names:
            return hash_id(text)
        subject = _SUBJECT.fullmatch(text)
        if subject and subject[2] in names:
            return f"{subject[1]}={hash_id(subject[2])}"
        return pattern.sub(lambda found: hash_id(found[0]), text) if loose else text

    without = tuple(
        dataclasses.replace(file, examples=tuple((line, reason, "(hidden)") for line, reason, _ in file.examples))
        for file in diagnosis.inputs
    )
    changed: Diagnosis = _walk(dataclasses.replace(diagnosis, inputs=without), replace)
    return changed


def _names(value: Any) -> Iterator[str]:
    """Every value that stands in a private column, anywhere in the diagnosis."""
    if isinstance(value, Example) and value.request_id:
        yield value.request_id
    if isinstance(value, str) and (subject := _SUBJECT.fullmatch(value)) and subject[1] in _PRIVATE and subject[2]:
        yield subject[2]
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _PRIVATE and isinstance(inner, str) and inner:
                yield inner
            yield from _names(inner)
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from _names(inner)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _names(getattr(value, field.name))


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    """The same shape with every string (values and keys of mappings alike) changed; other values as they are."""
    result: Any = value
    if isinstance(value, str):
        result = change(value)
    elif isinstance(value, Mapping):
        result = {_walk(key, change): _walk(inner, change) for key, inner in value.items()}
    elif isinstance(value, (tuple, list)):
        result = type(value)(_walk(inner, change) for inner in value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: _walk(getattr(value, field.name), change) for field in dataclasses.fields(value)}
        result = dataclasses.replace(value, **changed)
    return result
