"""The ticket's text: short, and nothing in it is markup that we did not write."""

import pytest
from markdown_it import MarkdownIt

from llmdoctor.report import markdown
from tests.report_samples import ALL, HOSTILE, huge, ordinary


@pytest.mark.parametrize("name", ALL)
def test_is_below_4000_characters(name: str) -> None:
    assert len(markdown.render(ALL[name]())) < 4000


@pytest.mark.parametrize("name", ALL)
def test_renders_to_text_lists_and_code_only(name: str) -> None:
    parser = MarkdownIt("gfm-like", {"html": True, "linkify": False})
    tags = {
        token.tag
        for outer in parser.parse(markdown.render(ALL[name]()))
        for token in (outer, *(outer.children or ()))
        if token.type not in {"text", "inline"}
    }
    assert tags <= {"p", "ol", "ul", "li", "strong", "code", "br", ""}


@pytest.mark.parametrize(
    "text", [*HOSTILE, "see https://evil.example/x now", "www.evil.example", "mail a@b.c", "#12 !3"]
)
def test_escapes_whatever_is_not_plain(text: str) -> None:
    parser = MarkdownIt("gfm-like", {"html": True, "linkify": False})
    inner = [token for outer in parser.parse("- for: " + markdown.escaped(text)) for token in outer.children or ()]
    assert {token.type for token in inner} <= {"text", "code_inline"}
    plain = "".join(token.content for token in inner if token.type == "text")
    assert not any(risk in plain for risk in ("@", "://", "www.", "<", "[", "](", "#1"))


def test_tells_verdict_finding_cause_evidence_fix_and_gaps() -> None:
    text = markdown.render(ordinary())
    for words in (
        "**Unhealthy**: Requests to llama-3.3-70b",
        "1. **Requests wait long for their first token** (critical; `model=llama-3.3-70b`;",
        "- for: At equal prompt length",
        "- against: Of the slowest hundred",
        "- fix, vLLM: Raise the number",
        "- `queue_ms` would tell more about `long_queue`",
    ):
        assert words in text


def test_punctuation_around_a_word_that_is_no_plain_text_stays_outside_of_its_code() -> None:
    assert markdown.escaped("calls fail (kind=one_two); more") == "calls fail (`kind=one_two`); more"
    assert markdown.escaped("see <b>, then *x*.") == "see `<b>`, then `*x*`."
    assert markdown.escaped("](javascript:x)") == "`](javascript:x`)"


def test_how_many_findings_are_left_is_no_part_of_the_last_one() -> None:
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown.render(huge()))
    [left] = [one for one in tokens if one.type == "inline" and one.level == 1 and one.content.startswith("and ")]
    assert left.content.endswith(" more")
    assert not [one for one in tokens if one.type == "inline" and "\nand " in one.content]
