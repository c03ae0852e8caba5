"""What a shell completes: the words that a command's help already names say which values they stand for."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from llmdoctor import rulebook
from llmdoctor.probe import protocols

if TYPE_CHECKING:
    _Type = click.ParamType[str]
else:  # before click 8.2 it takes no type
    _Type = click.ParamType

# Every option and argument that takes one of these takes a path.
PATHS = frozenset({"BEFORE", "AFTER", "DIR", "FILE", "LOGS", "PATH", "REPORT"})


class _Names(_Type):
    """Those of some names that begin with what was typed."""

    name = "name"

    def __init__(self, names: Callable[[], Iterable[str]]) -> None:
        self._names = names

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002 - click's signature
        incomplete: str,
    ) -> list[CompletionItem]:
        return [CompletionItem(name) for name in sorted(self._names()) if name.startswith(incomplete)]


def _rules() -> Iterable[str]:
    return rulebook.load().ids


def _profiles() -> Iterable[str]:
    return tomllib.loads((rulebook.shipped_rules() / "profiles.toml").read_text(encoding="utf-8"))


def _formats() -> Iterator[str]:
    return (page.stem for page in Path(__file__).with_name("formats").glob("*.md"))


def prepare(command: click.Command) -> None:
    """Gives the parameters of a command and of all below it the types that complete them. For a run that only
    completes: the values themselves are read as before."""
    for parameter in command.params:
        metavar = getattr(parameter, "metavar", None) or (parameter.name or "").upper()
        words = set(re.split(r"[^A-Z_]+", metavar)) if "=" not in metavar else set()
        if words & PATHS:
            parameter.type = click.Path()
        elif words & {"ID", "FINDING"}:
            parameter.type = _Names(_rules)
        elif parameter.name == "profile":
            parameter.type = _Names(_profiles)
        elif parameter.name == "protocol":
            parameter.type = _Names(protocols.names)
        elif "NAME" in words:
            parameter.type = _Names(_formats)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            prepare(inner)
