"""The ticket's text for Jira: short, and nothing from the data is an effect, a link, a mention or a macro."""

import dataclasses
import re

import pytest

from llmdoctor.report import jira, ticket
from tests.report_samples import ALL, HOSTILE, ordinary

# Brackets, braces, bars and the like that no backslash stands before.
LOOSE = re.compile(r"(?<!\\)[\[\]|!^~@#<>]|(?<!\\)(?:\\\\)*[{}]")


@pytest.mark.parametrize("name", ALL)
def test_is_below_4000_characters(name: str) -> None:
    assert len(jira.render(ALL[name]())) < 4000


@pytest.mark.parametrize(
    "text", [*HOSTILE, "see https://evil.example/x", "www.evil.example", "[~admin]", "{html}x{html}"]
)
def test_escapes_whatever_jira_would_act_on(text: str) -> None:
    shown = jira.escaped(text)
    outside = re.sub(r"(?<!\\)\{\{|(?<!\\)\}\}", "", shown)  # our own monospaced text
    assert not LOOSE.search(outside)
    assert "://" not in shown
    assert "www.e" not in shown


def test_leaves_ordinary_words_readable() -> None:
    assert jira.escaped("P95 of gpt-4o-mini rose 3x (12 % at 14:03).") == "P95 of gpt-4o-mini rose 3x (12 % at 14:03)."
    assert jira.escaped("set `--max-num-seqs 256`") == r"set {{\-\-max-num-seqs 256}}"


def test_tells_the_same_as_the_markdown() -> None:
    text = jira.render(ordinary())
    for words in (
        "*Unhealthy*: Requests to llama-3.3-70b",
        "# *Requests wait long for their first token* (critical; {{model=llama-3.3-70b}};",
        "#* *Requests queue for the engine*",
        "#** for: At equal prompt length",
        "#** fix, vLLM: Raise the number",
        "* {{queue\\_ms}} would tell more about {{long\\_queue}}",
        "{noformat}\nattempts  ",
    ):
        assert words in text


def test_sparklines_keep_the_highest_of_what_falls_on_one_character() -> None:
    line = ordinary().timeline
    many = tuple(line.bins[number % 60] for number in range(500))
    peak = dataclasses.replace(many[77], requests=90_000)
    rows = ticket.sparklines(dataclasses.replace(line, bins=(*many[:77], peak, *many[78:])))
    drawn = rows[0][10:].split("  ")[0]
    assert len(drawn) <= ticket.WIDE
    assert drawn.count("█") == 1
    assert rows[0].endswith("at most 90,000 in 2\u00a0min")
    assert rows[1].startswith("P50 TTFT  ")
    assert ticket.sparklines(dataclasses.replace(line, bins=line.bins[:3])) == []
