"""The pages of this package: how every template is filled, and what an expression in one puts out."""

from functools import partial
from typing import Any

from jinja2 import BytecodeCache, Environment, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup

from llmdoctor.report import figures


class _Compiled(BytecodeCache):
    """A page that is too long is filled again with less: its templates are compiled once in a process."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self._kept:
            bucket.bytecode_from_string(self._kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


_COMPILED = _Compiled()


def environment(longest: int | None = None) -> Environment:
    """Templates that escape everything and know no undefined name; texts are cleaned, and cut to `longest` characters
    where that is given."""
    return Environment(
        loader=PackageLoader("llmdoctor.report", "."),
        bytecode_cache=_COMPILED,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=partial(_shown, longest=longest),
    )


def _shown(value: Any, longest: int | None) -> Any:
    """What an expression of the template puts out: text from data is cleaned and cut, escaping follows."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return figures.NONE
    if isinstance(value, str):
        value = figures.clean(value)
        return figures.cut(value, longest) if longest else value
    return value
