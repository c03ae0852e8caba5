"""Prose of rule pages (Markdown) as HTML that cannot do anything: no raw HTML, no links, no images."""

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from llmdoctor.report import figures


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    parser.disable(["image", "autolink", "reference", "html_block", "html_inline"])
    # A heading of a page would break the outline of the report; a link is shown as its words and its address.
    parser.disable(["heading", "lheading"])
    parser.add_render_rule("link_open", _nothing)
    parser.add_render_rule("link_close", _nothing)
    return parser


def _nothing(_self: RendererHTML, _tokens: list[Token], _index: int, _options: object, _env: object) -> str:
    return ""


def html(text: str, longest: int = 4000) -> Markup:
    """The prose as paragraphs, lists and code blocks, cut to `longest` characters of source."""
    source = figures.cut(figures.clean(text).strip(), longest)
    # Every character of `source` went through markdown-it's own escaping with raw HTML switched off.
    return Markup(str(_parser().render(source)))


def plain(text: str) -> str:
    """The first paragraph or list item on one line, without marks; a page's code spans keep their backticks."""
    rows: list[str] = []
    fenced = False
    for raw in figures.clean(text).splitlines():
        row = raw.strip()
        if row.startswith("```"):
            fenced = not fenced
        elif not row and rows:
            break
        elif row and not fenced:
            if rows and row.startswith(("- ", "* ")):
                break
            rows.append(row)
    words = " ".join(rows) or next(iter(text.strip("`\n ").splitlines()), "")
    return figures.line(words.lstrip("-*#> ").replace("**", ""))


def rows(text: str) -> list[tuple[str, str]]:
    """All of it for a terminal: (kind, text) of each paragraph ("p"), list item ("-") and line of a code block ("|"),
    without marks; code spans keep their backticks."""
    found: list[tuple[str, str]] = []
    fenced, open_kind = False, ""
    for raw in figures.clean(text).splitlines():
        row = raw.strip()
        if row.startswith("```"):
            fenced, open_kind = not fenced, ""
        elif fenced:
            found.append(("|", raw.rstrip()))
        elif not row:
            open_kind = ""
        elif row.startswith(("- ", "* ")):
            open_kind = "-"
            found.append(("-", row[2:]))
        elif open_kind:
            found[-1] = (open_kind, f"{found[-1][1]} {row}")
        else:
            open_kind = "p"
            found.append(("p", row))
    return [(kind, words if kind == "|" else figures.line(words.replace("**", ""))) for kind, words in found]
