"""The report in a real browser: narrow, zoomed, dark, in forced colours, printed, by keyboard, read aloud, without
scripts, without its style sheet, and never with a request to anywhere."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from llmdoctor.probe.canary import Settings, canary
from llmdoctor.probe.holding import Hold
from llmdoctor.probe.relay import relay
from llmdoctor.report import html
from tests.real.browser import Browser
from tests.report_samples import hostile, huge

ROOT = Path(__file__).parents[2]
AXE = ROOT / ".venv-real/node/node_modules/axe-core/axe.min.js"
SAMPLES = ("proxy_buffering", "nested_retries", "healthy")
COMPARED = {"fixed": ("queueing", "healthy"), "regression": ("healthy", "client_timeout_short")}
MADE = {"hostile": hostile, "huge": huge}
PAGES = (*SAMPLES, *MADE, "probe", *COMPARED, "index", "queueing")
FRAMED = """<!doctype html><meta charset="utf-8"><title>Ticket</title>
<iframe id="report" sandbox="allow-same-origin" src="{name}" style="width:900px;height:900px;border:0"></iframe>"""
OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true)"
WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    for name in SAMPLES:
        command = [sys.executable, "-m", "llmdoctor", "analyze", f"sample_logs/{name}", "-o"]
        subprocess.run([*command, str(folder / f"{name}.html")], cwd=ROOT, check=True, capture_output=True)
    with canary(settings=Settings(first_ms=50, gap_ms=5)) as server, relay(server.url, Hold.parse("whole")) as proxy:
        command = ["probe", proxy.url + "/v1/chat/completions", "--direct", server.url + "/v1/chat/completions"]
        command = [sys.executable, "-m", "llmdoctor", *command, "--quick", "-o", str(folder / "probe.html")]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    command = [sys.executable, "-m", "llmdoctor", "rules", "docs", "-o", str(folder / "site")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    for name, sides in COMPARED.items():
        command = [sys.executable, "-m", "llmdoctor", "compare", *(f"sample_logs/{side}" for side in sides)]
        subprocess.run([*command, "-o", str(folder / f"{name}.html")], cwd=ROOT, check=True, capture_output=True)
    for name, sample in MADE.items():
        (folder / f"{name}.html").write_text(html.render(sample()), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in (*SAMPLES, *MADE, "probe", *COMPARED)} | {
        name: folder / f"site/{name}.html" for name in ("index", "queueing")
    }


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as one:
        yield one


@pytest.mark.parametrize("width", [380, 640, 1100])  # 640: what a window of 1,280 shows at 200 %
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_the_window_and_nothing_is_fetched(
    browser: Browser, reports: dict[str, Path], name: str, width: int
) -> None:
    browser.open(reports[name], width)
    browser.ask(OPEN_ALL)
    assert browser.ask(WIDTH) <= width
    assert browser.requests == [reports[name].as_uri()]
    assert browser.ask("document.body.innerText.length") > 1500


@pytest.mark.parametrize("media", [{}, {"prefers-color-scheme": "dark"}, {"forced-colors": "active"}])
@pytest.mark.parametrize("width", [380, 1100])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_no_violation(
    browser: Browser, reports: dict[str, Path], name: str, width: int, media: dict[str, str]
) -> None:
    browser.open(reports[name], width, media)
    browser.ask(OPEN_ALL)
    browser.ask(AXE.read_text(encoding="utf-8") + ";0")
    found = browser.ask(
        "axe.run(document).then(all => JSON.stringify(all.violations.map("
        "one => [one.id, one.help, one.nodes.slice(0, 3).map(node => node.html.slice(0, 200))])))"
    )
    assert json.loads(found) == []


def test_is_whole_in_a_sandboxed_frame_without_scripts(browser: Browser, reports: dict[str, Path]) -> None:
    ticket = reports["proxy_buffering"].parent / "ticket.html"
    ticket.write_text(FRAMED.format(name="proxy_buffering.html"))
    browser.open(ticket)
    browser.open(reports["proxy_buffering"], 900)
    alone = browser.ask("document.body.innerText")
    browser.open(ticket)
    names = browser.call("Page.getFrameTree")["frameTree"]["childFrames"]
    assert [one["frame"]["url"] for one in names] == [reports["proxy_buffering"].as_uri()]
    world = browser.call("Page.createIsolatedWorld", frameId=names[0]["frame"]["id"])["executionContextId"]
    framed = browser.call("Runtime.evaluate", expression="document.body.innerText", contextId=world)["result"]["value"]
    assert framed == alone
    assert len(framed) > 2000


def test_the_keyboard_reaches_everything_in_order_and_opens_what_is_folded(
    browser: Browser, reports: dict[str, Path]
) -> None:
    browser.open(reports["proxy_buffering"])
    browser.press("Tab")
    assert browser.ask("document.activeElement.className") == "skip"
    assert browser.ask("document.activeElement.getBoundingClientRect().left") >= 0
    browser.press("Enter")
    assert browser.ask("location.hash") == "#main"
    count = browser.ask("document.querySelectorAll('a[href], summary, [tabindex=\"0\"]').length")
    places, hidden = [], 0
    for _ in range(count):
        browser.press("Tab")
        place, shown = browser.ask(
            "[document.activeElement === document.body ? -1"
            " : Array.from(document.querySelectorAll('*')).indexOf(document.activeElement),"
            " getComputedStyle(document.activeElement).outlineStyle !== 'none']"
        )
        if place < 0:  # past the last
            break
        places.append(place)
        hidden += not shown
    assert len(places) > 8
    assert places == sorted(places)
    assert hidden == 0
    browser.ask("document.querySelector('summary').focus()")
    browser.press("Enter")
    assert browser.ask("document.querySelector('details').open")


def test_is_read_aloud_in_order_with_names_for_all_pictures(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["nested_retries"])
    nodes = [one for one in browser.call("Accessibility.getFullAXTree")["nodes"] if not one.get("ignored")]
    roles = [one["role"]["value"] for one in nodes]
    assert roles.count("main") == 1
    levels = browser.ask("Array.from(document.querySelectorAll('h1, h2, h3, h4, h5')).map(one => +one.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    pictures = [one for one in nodes if one["role"]["value"] in ("image", "img")]
    assert len(pictures) >= 4
    for one in pictures:
        assert len(one["name"]["value"]) > 10
        assert len(one.get("description", {}).get("value", "")) > 10
    tops = browser.ask("Array.from(document.querySelectorAll('h2, h3')).map(one => one.getBoundingClientRect().top)")
    assert tops == sorted(tops)


def test_dark_light_and_forced_colours_are_three_pictures(browser: Browser, reports: dict[str, Path]) -> None:
    seen = set()
    for media in ({"prefers-color-scheme": "dark"}, {"prefers-color-scheme": "light"}, {"forced-colors": "active"}):
        browser.open(reports["proxy_buffering"], media=media)
        picture = browser.picture(reports["proxy_buffering"].with_suffix(".png"), (0, 0, 1000, 1400))
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 50_000
        seen.add(picture)
        line, paper = browser.ask(
            "[getComputedStyle(document.querySelector('.chart .p50')).stroke,"
            " getComputedStyle(document.body).backgroundColor]"
        )
        assert line != paper
    assert len(seen) == 3


def test_print_has_pages_and_what_is_folded_on_the_screen(browser: Browser, reports: dict[str, Path]) -> None:
    browser.open(reports["proxy_buffering"], media={"media": "print"})
    heights = browser.ask(
        "Array.from(document.querySelectorAll('details:not(.numbers, .unprinted)')).map(one =>"
        " one.lastElementChild.getBoundingClientRect().height)"
    )
    assert heights
    assert min(heights) > 0
    sheets = browser.printed()
    assert sheets.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", sheets)) >= 3


def test_can_be_read_where_the_style_sheet_is_dropped(browser: Browser, reports: dict[str, Path]) -> None:
    plain = reports["nested_retries"].with_name("plain.html")
    page = reports["nested_retries"].read_text(encoding="utf-8")
    plain.write_text(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL), encoding="utf-8")
    browser.open(plain)
    assert browser.ask(WIDTH) <= 1000
    fills = browser.ask("Array.from(document.querySelectorAll('.p50, .grid')).map(one => getComputedStyle(one).fill)")
    assert set(fills) == {"none"}
    painted = browser.ask("Array.from(document.querySelectorAll('.heat1')).map(one => getComputedStyle(one).fill)")
    assert "rgb(0, 0, 0)" not in painted
