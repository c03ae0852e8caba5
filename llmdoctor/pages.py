"""A Markdown page as data: title, settings, sections, code blocks. Rules and formats share this one shape.

A page is an `# H1` title, at most one ```` ```toml ```` block before the first `##`, then `##` sections; a section
may have `###` parts. Structure comes from markdown-it (CommonMark), so a `#` inside a code block is no heading.
Everything keeps its line number: whatever is wrong with a page is reported as file:line.
"""

import functools
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from llmdoctor.errors import PageError

# Languages of blocks that are read as data and so are no part of the prose.
DATA = ("toml", "sql", "log", "jsonl")


@dataclass(frozen=True)
class Block:
    """One fenced block: its info string ("sql found attempts"), its text verbatim and its first line's number."""

    info: str
    text: str
    line: int

    @property
    def language(self) -> str:
        """First word of the info string."""
        return self.info.split(" ", 1)[0]


@dataclass(frozen=True)
class Section:
    """What stands between one heading and the next: prose (Markdown, verbatim), blocks, and sub-sections."""

    title: str
    line: int
    prose: str
    blocks: tuple[Block, ...]
    parts: tuple["Section", ...]

    def block(self, language: str) -> Block | None:
        """The first block of a language, None without one."""
        return next((block for block in self.blocks if block.language == language), None)

    def settings(self, path: str) -> dict[str, Any]:
        """The section's ```` ```toml ```` block as a dict, {} without one. PageError where it is no TOML."""
        block = self.block("toml")
        return parse_toml(path, block) if block else {}


@dataclass(frozen=True)
class Page:
    """One page. `id` is the file's name without suffix, `path` as it should be shown in messages."""

    id: str
    path: str
    title: str
    head: Section
    sections: tuple[Section, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """The toml block under the title."""
        return self.head.settings(self.path)

    def section(self, title: str) -> Section | None:
        """The `##` section of that title, None without one."""
        return next((section for section in self.sections if section.title == title), None)

    def wrong(self, line: int, problem: str) -> PageError:
        """The error to raise for something on this page."""
        return PageError(self.path, line, problem)


def read_page(path: Path, shown: str | None = None) -> Page:
    """Reads and parses one page. PageError where it is no UTF-8 or has not exactly one title."""
    name = shown or str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PageError(name, 1, f"cannot be read as UTF-8 text: {error}") from error
    return parse_page(path.stem, name, text)


def parse_page(page_id: str, path: str, text: str) -> Page:
    """Parses the text of a page. PageError names the line of the first fault."""
    lines = text.splitlines()
    tokens = MarkdownIt("commonmark").parse(text)
    headings: list[tuple[int, int, int, str]] = []
    fences: list[tuple[int, int, Block]] = []
    for index, token in enumerate(tokens):
        if token.map is None or token.level != 0:
            continue
        first, last = token.map
        if token.type == "heading_open":
            headings.append((first, last, int(token.tag[1]), tokens[index + 1].content.strip()))
        elif token.type == "fence":
            fences.append((first, last, Block(token.info.strip(), token.content, first + 2)))
    if not headings or headings[0][2] != 1 or sum(level == 1 for *_, level, _title in headings) != 1:
        raise PageError(path, 1, "a page begins with one '# Title' and has no second one")
    return _assemble(page_id, path, lines, headings, fences)


def _assemble(
    page_id: str,
    path: str,
    lines: Sequence[str],
    headings: Sequence[tuple[int, int, int, str]],
    fences: Sequence[tuple[int, int, Block]],
) -> Page:
    flat: list[tuple[int, Section]] = []
    for index, (first, body, level, title) in enumerate(headings):
        if level > 3:
            raise PageError(path, first + 1, f"heading of level {level}: a page has '##' sections and '###' parts only")
        end = headings[index + 1][0] if index + 1 < len(headings) else len(lines)
        inside = [fence for fence in fences if body <= fence[0] < end]
        prose = _prose(lines, body, end, inside)
        flat.append((level, Section(title, first + 1, prose, tuple(block for *_, block in inside), ())))
    sections: list[Section] = []
    for level, section in flat[1:]:
        if level == 2:
            sections.append(section)
        elif not sections:
            raise PageError(path, section.line, f"part {section.title!r} stands in no '##' section")
        else:
            owner = sections[-1]
            sections[-1] = Section(owner.title, owner.line, owner.prose, owner.blocks, (*owner.parts, section))
    return Page(page_id, path, flat[0][1].title, flat[0][1], tuple(sections))


def _prose(lines: Sequence[str], first: int, last: int, fences: Sequence[tuple[int, int, Block]]) -> str:
    data = [fence for fence in fences if fence[2].language in DATA]  # a command in a ```sh block stays with its text
    hidden = {number for start, end, _ in data for number in range(start, end)}
    return "\n".join(line for number, line in enumerate(lines[first:last], first) if number not in hidden).strip()


@functools.cache
def _toml(text: str) -> dict[str, Any]:
    """A page is asked for its settings many times; nobody changes what is returned."""
    return tomllib.loads(text)


def parse_toml(path: str, block: Block) -> dict[str, Any]:
    """The block as a dict; PageError with the page's own line number where it is no TOML."""
    try:
        return _toml(block.text)
    except tomllib.TOMLDecodeError as error:
        offset = getattr(error, "lineno", 1)
        raise PageError(path, block.line + int(offset) - 1, f"not valid TOML: {error}") from error
