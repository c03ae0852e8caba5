"""All pages of rules and formats as a static site: an index and one HTML file a page, without scripts or requests."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup, escape

from llmdoctor import __version__
from llmdoctor.report import figures, templates
from llmdoctor.rulebook import Rulebook

# A word that can only be an id: a single word such as "errors" is linked where it stands as code.
_ID = re.compile(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b")


@dataclass(frozen=True)
class Doc:
    """One page of the site. `links` are words with the ids that they lead to, `about` a line for the index."""

    id: str
    kind: str
    title: str
    about: str
    links: tuple[tuple[str, tuple[str, ...]], ...]
    body: Markup


def site(book: Rulebook, sources: Mapping[str, Path], formats: Mapping[str, tuple[str, Path]]) -> dict[str, str]:
    """File name -> HTML. `sources` are the files of the rules' pages by page id, `formats` title and file of each
    format by its name."""
    homes = {rule.id: rule.page.id for rule in book.symptoms} | {rule.id: rule.page.id for rule in book.causes}
    homes |= {name: name for name in (*sources, *formats)}
    pages = [*_symptoms(book, sources, homes), *_causes(book, sources, homes), *_formats(formats, homes)]
    environment = templates.environment()
    environment.globals["link"] = lambda name: _link(name, name, homes)
    template = environment.get_template("docs.html.j2")
    made = {
        f"{page.id}.html": template.render(page=page, title=page.title, version=__version__, lists=()) for page in pages
    }
    lists = [(f"{kind}s", [page for page in pages if page.kind == kind]) for kind in ("Symptom", "Cause", "Format")]
    return made | {"index.html": template.render(page=None, title="All pages", version=__version__, lists=lists)}


def _symptoms(book: Rulebook, sources: Mapping[str, Path], homes: Mapping[str, str]) -> list[Doc]:
    return [
        Doc(
            rule.page.id,
            "Symptom",
            rule.title,
            rule.severity,
            (("may be explained by", tuple(cause.id for cause in book.causes if rule.id in cause.explains)),),
            _body(sources[rule.page.id], homes),
        )
        for rule in book.symptoms
    ]


def _causes(book: Rulebook, sources: Mapping[str, Path], homes: Mapping[str, str]) -> list[Doc]:
    first = {rule.page.id: rule for rule in reversed(book.causes)}
    return [
        Doc(
            page_id,
            "Cause",
            rule.title,
            rule.layer,
            (("explains", rule.explains), ("gives way to", rule.explained_away_by)),
            _body(sources[page_id], homes),
        )
        for page_id, rule in sorted(first.items())
    ]


def _formats(formats: Mapping[str, tuple[str, Path]], homes: Mapping[str, str]) -> list[Doc]:
    return [Doc(name, "Format", title, "log format", (), _body(path, homes)) for name, (title, path) in formats.items()]


def _body(path: Path, homes: Mapping[str, str]) -> Markup:
    """The page below its title as HTML: raw HTML and images are off, ids lead to their pages."""
    parser = MarkdownIt("commonmark", {"html": False})
    parser.disable(["image", "autolink", "html_block", "html_inline"])

    def linked(_self: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
        text = str(escape(tokens[index].content))
        return _ID.sub(lambda found: str(_link(found[0], found[0], homes)), text)

    def code(_self: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
        text = tokens[index].content
        return str(_link(text, Markup("<code>{}</code>").format(text), homes))

    def fence(_self: object, tokens: Sequence[Token], index: int, _options: object, _env: object) -> str:
        told = Markup('<p class="small">{}</p>').format(tokens[index].info) if " " in tokens[index].info else ""
        return str(Markup('{}<pre tabindex="0"><code>{}</code></pre>\n').format(told, tokens[index].content))

    def nothing(_self: object, _tokens: Sequence[Token], _index: int, _options: object, _env: object) -> str:
        return ""

    for name, rule in (("text", linked), ("code_inline", code), ("fence", fence)):
        parser.add_render_rule(name, rule)
    for name in ("link_open", "link_close"):
        parser.add_render_rule(name, nothing)
    text = figures.clean(path.read_text(encoding="utf-8"))
    # Every character of the page went through markdown-it's own escaping, or ours above.
    return Markup(str(parser.render(text.split("\n", 1)[1])))


def _link(name: str, shown: str, homes: Mapping[str, str]) -> Markup:
    if name not in homes:
        return Markup(shown) if isinstance(shown, Markup) else Markup(escape(shown))
    return Markup('<a href="{}.html">{}</a>').format(homes[name], shown)
