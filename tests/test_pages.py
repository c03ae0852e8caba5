"""A page becomes title, settings, sections, parts and blocks, each with its line; what is wrong names its line."""

from pathlib import Path

import pytest

from llmdoctor.errors import PageError
from llmdoctor.pages import Page, parse_page, read_page

TEXT = """# Calls fail

```toml
weight = 3
```

Before the first heading.

## Evidence

About both pieces.

### {n} calls failed

```toml
needs = ["outcome"]
```

```sql
select 1 -- # no heading
```

### Others did not

```sql found attempts
select 2
```

## Fix

Turn it off.
"""


def _page(text: str = TEXT) -> Page:
    return parse_page("calls_fail", "rules/causes/calls_fail.md", text)


def test_a_page_has_id_title_and_settings() -> None:
    page = _page()
    assert (page.id, page.title, page.settings) == ("calls_fail", "Calls fail", {"weight": 3})
    assert page.head.prose == "Before the first heading."


def test_sections_keep_their_order_and_lines() -> None:
    assert [(section.title, section.line) for section in _page().sections] == [("Evidence", 9), ("Fix", 29)]


def test_a_section_has_parts_with_blocks_and_settings_of_their_own() -> None:
    page = _page()
    evidence = page.section("Evidence")
    assert evidence is not None
    assert [part.title for part in evidence.parts] == ["{n} calls failed", "Others did not"]
    assert evidence.parts[0].settings(page.path) == {"needs": ["outcome"]}
    assert evidence.parts[1].settings(page.path) == {}
    assert evidence.prose == "About both pieces."
    assert evidence.blocks == ()


def test_a_block_keeps_its_text_and_the_line_of_its_first_line() -> None:
    evidence = _page().section("Evidence")
    assert evidence is not None
    block = evidence.parts[0].block("sql")
    assert block is not None
    assert (block.text, block.line) == ("select 1 -- # no heading\n", 20)
    example = evidence.parts[1].block("sql")
    assert example is not None
    assert (example.info, example.language) == ("sql found attempts", "sql")


def test_prose_leaves_out_the_blocks() -> None:
    fix = _page().section("Fix")
    assert fix is not None
    assert fix.prose == "Turn it off."


def test_a_section_that_is_not_there_is_none() -> None:
    assert _page().section("Verify") is None
    assert _page("# Only a title\n").settings == {}


@pytest.mark.parametrize("text", ["", "no title", "## Section first\n", "# One\n\n# Two\n", "Setext\n---\n"])
def test_a_page_has_exactly_one_title_and_begins_with_it(text: str) -> None:
    with pytest.raises(PageError, match=r"calls_fail\.md:1: a page begins with one '# Title' and has no second one"):
        _page(text)


def test_a_heading_of_level_four_is_refused_with_its_line() -> None:
    with pytest.raises(PageError, match=r"calls_fail\.md:5: heading of level 4: a page has '##' sections"):
        _page("# Title\n\n## Section\n\n#### Too deep\n")


def test_a_part_outside_of_a_section_is_refused_with_its_line() -> None:
    with pytest.raises(PageError, match=r"calls_fail\.md:3: part 'Part' stands in no '##' section"):
        _page("# Title\n\n### Part\n")


def test_settings_that_are_no_toml_name_their_line() -> None:
    page = _page("# Title\n\n```toml\nweight = 3\nweight = 4\nfine = 1\n```\n")
    with pytest.raises(PageError, match=r"calls_fail\.md:\d+: not valid TOML") as caught:
        _ = page.settings
    assert 4 <= caught.value.line <= 6


def test_a_file_that_is_no_utf_8_or_not_there_is_told(tmp_path: Path) -> None:
    page = tmp_path / "latin.md"
    page.write_bytes("# Größe".encode("latin-1"))
    with pytest.raises(PageError, match="cannot be read as UTF-8 text"):
        read_page(page)
    with pytest.raises(PageError, match="cannot be read as UTF-8 text"):
        read_page(tmp_path / "missing.md")


def test_a_page_from_a_file_has_the_files_name_as_id_and_the_shown_path(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text(TEXT, encoding="utf-8")
    page = read_page(tmp_path / "mine.md", shown="rules/mine.md")
    assert (page.id, page.path) == ("mine", "rules/mine.md")
    assert str(page.wrong(7, "is odd")) == "rules/mine.md:7: is odd"
