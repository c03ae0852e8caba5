"""The help of all commands as one manual page (man(7) macros)."""

from collections.abc import Iterator

import click

from llmdoctor import __version__

_EXIT = (
    ("0", "ran"),
    ("1", "a symptom at or above --fail-on is present, --fail-on-regression found one, or a test of a page failed"),
    ("2", "wrong usage, or a broken page"),
    ("3", "nothing usable in the input"),
    ("130", "interrupted"),
)


def roff(command: click.Command, context: click.Context) -> str:
    """The page of a command with all of its subcommands; no date, so the same text for the same program."""
    rows = [f'.TH LLMDOCTOR 1 "" "llmdoctor {__version__}" "User Commands"']
    rows += [".SH NAME", f"llmdoctor \\- {_plain(command.get_short_help_str(200))}"]
    rows += [".SH SYNOPSIS", r".B llmdoctor", r"\fICOMMAND\fR [\fIOPTIONS\fR] [\fIARGUMENTS\fR]"]
    rows += [".SH DESCRIPTION", *_text(command.help or "")]
    rows.append(".SH COMMANDS")
    for name, one, inner in _commands(command, context):
        usage = " ".join(one.collect_usage_pieces(inner))
        rows += [f".SS {_plain(name)} {_plain(usage)}", *_text(one.help or "")]
        for parameter in one.params:
            record = parameter.get_help_record(inner) if isinstance(parameter, click.Option) else None
            if record is not None:
                rows += [".TP", f"\\fB{_plain(record[0])}\\fR", _plain(record[1])]
    rows.append(".SH EXIT STATUS")
    for code, meaning in _EXIT:
        rows += [".TP", f".B {code}", meaning]
    rows += [".SH FILES", ".TP", ".I llmdoctor.toml", "Settings, looked for upwards from the working directory."]
    return "\n".join(rows) + "\n"


def _commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command that does something, with its full name."""
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        one = command.get_command(context, name)
        if one is None or one.hidden:
            continue
        inner = click.Context(one, info_name=name, parent=context)
        if isinstance(one, click.Group):
            yield from ((f"{name} {under}", deeper, place) for under, deeper, place in _commands(one, inner))
        else:
            yield name, one, inner


def _text(text: str) -> Iterator[str]:
    """Paragraphs; a block that click was told not to wrap (by a backspace) keeps its lines."""
    for number, block in enumerate(text.strip().split("\n\n")):
        if number:
            yield ".PP"
        if block.lstrip().startswith("\b"):
            yield from (".nf", *(_plain(row) for row in block.splitlines() if row.strip() != "\b"), ".fi")
        else:
            yield _plain(" ".join(block.split()))


def _plain(text: str) -> str:
    """Text in which nothing is a macro."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe
