"""The pages of this package: how every template is filled, and what an expression in one puts out."""

from functools import partial
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from llmdoctor.report import figures


def environment(longest: int | None = None) -> Environment:
    """Templates that escape everything and know no undefined name; texts are cleaned, and cut to `longest` characters
    where that is given."""
    return Environment(
        loader=PackageLoader("llmdoctor.report", "."),
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
