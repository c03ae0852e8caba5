"""The HTML report: whole, harmless, the same twice, and never larger than agreed."""

import dataclasses
import json
import re
import unicodedata
from html.parser import HTMLParser

import pytest

from llmdoctor.diagnose.course import Story
from llmdoctor.diagnose.values import as_dict
from llmdoctor.errors import InputError
from llmdoctor.report import figures, html, view
from tests.report_samples import ALL, HOSTILE, cause, huge, ordinary, unknowing

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags, attributes, text, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.faults: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> at {self.getpos()}")

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"script", "style"}:
            self.words.append(data)


@pytest.fixture(params=ALL, scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return html.render(ALL[request.param]())


def test_is_at_most_200_kb(page: str) -> None:
    assert len(page.encode()) <= 200_000


def test_closes_every_element_it_opens(page: str) -> None:
    parsed = Page(page)
    assert parsed.faults == []
    assert parsed.open == []


def test_has_no_script_but_the_data_block(page: str) -> None:
    scripts = [attributes for tag, attributes in Page(page).tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "llmdoctor-diagnosis"}]


def test_has_no_handlers_frames_forms_or_inline_styles(page: str) -> None:
    for tag, attributes in Page(page).tags:
        assert tag not in {"iframe", "object", "embed", "form", "base", "link", "img", "audio", "video"}
        assert not [name for name in attributes if name.startswith("on") or name == "style"]


def test_asks_nobody_for_anything(page: str) -> None:
    for _, attributes in Page(page).tags:
        for name in ("href", "src", "srcset", "action", "data", "xlink:href", "poster"):
            assert (attributes.get(name) or "#").startswith("#")
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert f'<meta http-equiv="Content-Security-Policy" content="{policy}">' in page


def test_has_no_invisible_or_reordering_character(page: str) -> None:
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page.split("<script type=", 1)[0])


def test_gives_every_id_once_and_every_anchor_a_target(page: str) -> None:
    tags = Page(page).tags
    ids = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(a["href"])[1:] for _, a in tags if "href" in a} <= set(ids)
    named = [name for _, a in tags for name in str(a.get("aria-labelledby") or "").split()]
    assert set(named) <= set(ids)


def test_has_captions_scopes_and_one_title_heading(page: str) -> None:
    tags = Page(page).tags
    names = [tag for tag, _ in tags]
    assert names.count("h1") == 1
    assert names.count("table") == names.count("caption")
    assert all(a.get("scope") in {"row", "col"} for tag, a in tags if tag == "th")
    assert ("html", {"lang": "en"}) in tags
    assert all(a.get("role") == "img" for tag, a in tags if tag == "svg" and a.get("class") == "chart")


def test_is_the_same_twice() -> None:
    for name, sample in ALL.items():
        assert html.render(sample()) == html.render(sample()), name


@pytest.mark.parametrize("name", ["ordinary", "unknowing"])
def test_carries_the_whole_diagnosis(name: str) -> None:
    diagnosis = ALL[name]()
    assert html.read_back(html.render(diagnosis)) == json.loads(json.dumps(as_dict(diagnosis)))


def test_carries_hostile_strings_unchanged() -> None:
    read = html.read_back(html.render(ALL["hostile"]()))
    notes = [note[:100] for note in read["notes"]]
    assert len(notes) > 4
    assert notes == [text[:100] for text in HOSTILE[: len(notes)]]


def test_says_what_was_cut_from_a_diagnosis_that_is_too_large() -> None:
    page = html.render(huge())
    read = html.read_back(page)
    assert read["schema"] == "llmdoctor.report/1"
    assert len(read["metrics"]) + read["cut"]["metrics"] == 5000
    assert "more</p>" in page
    assert "--json" in page


def test_cannot_read_back_another_page() -> None:
    with pytest.raises(InputError, match="no diagnosis"):
        html.read_back("<html></html>")
    damaged = html.render(unknowing()).replace('"schema"', "schema")
    with pytest.raises(InputError, match="damaged"):
        html.read_back(damaged)


def test_tells_a_finding_from_what_to_when_it_is_wrong() -> None:
    words = " ".join(" ".join(Page(html.render(ordinary())).words).split())
    order = [
        "waited up to 24.3 s",
        "39,981 lines in 2 files",
        "Over time",
        "Findings",
        "model=llama-3.3-70b",
        "for",
        "At equal prompt length",
        "against",
        "cannot tell",
        "Fix: vLLM",
        "Verify",
        "When this is wrong",
        "Three requests of about 1,200 tokens",
        "Percentiles",
        "too few",
        "Advised timeouts",
        "What could not be checked",
        "How every rule ended",
        "Data quality",
        "line 211, not JSON",
    ]
    place = 0
    for text in order:
        place = words.index(text, place)


def test_no_letter_carries_a_tower_of_marks() -> None:
    assert figures.clean("Z" + "\u0338" * 30) == "Z" + "\u0338" * figures.MOST_MARKS
    for written in ("Việt Nam", "हिन्दी", "ภาษาไทย", unicodedata.normalize("NFD", "Việt ǭ")):
        assert figures.clean(written) == written


def test_the_first_screen_is_told_in_full_however_short_the_rest_became() -> None:
    story = "One incident after the other. " * 15 + "It ended so"
    page = html.render(dataclasses.replace(huge(), story=Story("", "", (), story)))
    assert f'<p class="scope">{story}.</p>' in page
    assert "….</p>" not in page


def test_a_confidence_is_the_same_number_everywhere() -> None:
    for confidence in (0.695, 0.835, 0.885, 0.005, 1.0):
        percent = view.certainty(cause(confidence=confidence, provisional=False)).split("\u00a0")[0]
        assert int(percent) == round(100 * float(f"{confidence:.2f}"))
