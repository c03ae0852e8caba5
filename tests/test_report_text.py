"""The terminal's screen: it fits, it is aligned, and nothing from the data steers the terminal."""

import dataclasses
import re

import pytest

from llmdoctor.diagnose.values import Population, Stretch, Where
from llmdoctor.report import columns, figures, text
from tests.report_samples import ALL, ordinary, unknowing

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


# Everything of the huge one at --verbose is no screen.
SCREENS = [(name, verbose) for name in ALL for verbose in (False, True) if (name, verbose) != ("huge", True)]


@pytest.mark.parametrize(("name", "verbose"), SCREENS)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_fits_80_columns(name: str, verbose: bool, encoding: str) -> None:
    for line in text.render(ALL[name](), verbose=verbose, encoding=encoding).splitlines():
        assert columns.width(line) <= 80, line


@pytest.mark.parametrize("name", ALL)
def test_sends_no_control_character_of_the_data(name: str) -> None:
    shown = text.render(ALL[name](), paths=["a\x1b[2Jb.html"])
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    coloured = text.render(ALL[name](), colour=True)
    assert set(ESCAPE.findall(coloured)) <= {"\x1b[1;31m", "\x1b[33m", "\x1b[32m", "\x1b[1m", "\x1b[2m", "\x1b[0m"}
    assert "\x1b" not in ESCAPE.sub("", coloured)


def test_colours_change_nothing_but_colours() -> None:
    assert ESCAPE.sub("", text.render(ordinary(), colour=True)) == text.render(ordinary())


def test_is_plain_ascii_where_the_stream_knows_no_more() -> None:
    for name in ALL:
        assert text.render(ALL[name](), encoding="ANSI_X3.4-1968").isascii()


def test_says_everything_on_one_screen() -> None:
    shown = text.render(ordinary(), paths=["report.html"])
    for words in (
        "UNHEALTHY: Requests to llama-3.3-70b",
        "41 rejected",
        "too few",
        "■ critical  high_ttft",
        "3,412/19,870",
        "78 %, provisional",
        "+ At equal prompt length",
        "- Of the slowest",
        "Fix, vLLM: Raise",
        "queue_ms would tell more about",
        "and 1 more",
    ):
        assert words in shown
    assert shown.endswith("Report: report.html\n")
    assert len(shown.splitlines()) < 55


def test_quiet_is_the_verdict_alone() -> None:
    assert text.render(unknowing(), quiet=True).startswith("UNDETERMINED: Nothing can be said")
    assert len(text.render(unknowing(), quiet=True).splitlines()) == 1


def test_verbose_tells_how_every_rule_ended() -> None:
    shown = text.render(ordinary(), verbose=True)
    assert "? Whether the engine's own queue grew cannot be told" in shown
    assert "suppressed 1: exposed_secrets" in shown
    assert "overload: explained away by queueing" in shown


def test_tables_stay_aligned_with_wide_characters() -> None:
    rows = columns.table([["東京", "1"], ["ab", "10"]], "<>", 80, ())
    assert [columns.width(row) for row in rows] == [8, 8]
    assert columns.fit("東京東京", 5) == "東京…"
    assert columns.wrap("aaaa bbbb " + "c" * 9, 6, "- ", "  ") == ["- aaaa", "  bbbb", "  cccc", "  cccc", "  c"]


def test_a_share_reads_as_a_share_however_small_it_is() -> None:
    told = [figures.share(value) for value in (0.0, 6e-7, 0.00012, 0.173, 0.9999999, 1.0, -2e-7)]
    assert [one.removesuffix("\xa0%") for one in told] == ["0", "<0.01", "0.012", "17.3", "99.9", "100", "-0.01"]
    assert figures.share(None) == "not known"


def test_slow_for_its_tokens_is_not_told_by_whole_times_that_say_the_opposite() -> None:
    def told(slow_ms: float) -> str:
        populations = {"normal": Population(60, 3120.0), "slow": Population(6, slow_ms)}
        stretch = Stretch("queue", True, {"normal": 10.0, "slow": 2000.0}, 1.0)
        where = Where("client", "m", True, None, populations, (stretch,))
        shown = text.render(dataclasses.replace(ordinary(), where=(where,)))
        return " ".join(shown[shown.index("6 slow requests") :].split("\n\n")[0].split())

    assert told(5000) == "6 slow requests (m, streamed, at client; 5 s against 3.12 s) took longer by queue 100 %"
    assert (
        told(2560) == "6 slow requests (m, streamed, at client) took longer than their tokens take else by queue 100 %"
    )
