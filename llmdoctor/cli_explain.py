"""The commands `explain` and `man`: what a finding means, and what the program can do."""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for Jinja: it is imported where it is used.

import sys
from pathlib import Path

import click

from llmdoctor.report import files


@click.command()
@click.argument("finding", metavar="FINDING")
@click.argument("report", metavar="REPORT")
@click.option("--rules", "folders", multiple=True, metavar="DIR", help="Further rules, as the report was made with.")
def explain(finding: str, report: str, folders: tuple[str, ...]) -> None:
    """Print all that is known of one finding: why it matters, its evidence with every figure, what to change.

    FINDING is its number in the report, or the id of a symptom or cause; REPORT is a file that -o or --json wrote.
    """
    from llmdoctor.report import embed
    from llmdoctor.report.explain import render, rule_of
    from llmdoctor.rulebook import load

    plain = embed.read(report)
    book = load([Path(folder) for folder in folders])
    rule_id = book.check_id(rule_of(plain, finding))
    text = render(plain, book, rule_id, colour=files.coloured(sys.stdout), encoding=sys.stdout.encoding or "ascii")
    files.say(text, sys.stdout)


@click.command()
@click.pass_context
def man(context: click.Context) -> None:
    """Print the manual page: llmdoctor man | man -l -"""
    from llmdoctor.manual import roff

    root = context.find_root()
    files.say(roff(root.command, root), sys.stdout)
