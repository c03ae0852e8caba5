"""`explain`, `rules docs` and `man`: what a finding means, from the report alone; all pages as a site; the manual."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from llmdoctor import rulebook
from llmdoctor.diagnose.values import to_json
from llmdoctor.errors import InputError
from llmdoctor.report import columns, embed, explain, html
from tests.report_samples import huge, ordinary

ROOT = Path(__file__).parents[1]


def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmdoctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture
def report(tmp_path: Path) -> Path:
    path = tmp_path / "report.html"
    path.write_text(html.render(ordinary()), encoding="utf-8")
    return path


def test_tells_a_cause_with_the_figures_of_the_report_and_the_text_of_its_page(report: Path) -> None:
    told = run("explain", "queueing", str(report))
    assert told.returncode == 0, told.stderr
    text = " ".join(told.stdout.split())
    for words in (
        "queueing, cause, inference",
        "Under high_ttft, model=llama-3.3-70b: 78 %, provisional; explains 71 % of it; 3,120 attempts",
        "+ At equal prompt length the first token waits 6.2x longer",
        "ratio = 6.2, busy = 48",
        "- Of the slowest hundred requests 4 ran alone",
        "? Whether the engine's own queue grew cannot be told",
        "logs/gateway.jsonl.gz:48211 (req-7f3a9c21)",
        "Fix, HAProxy",
        "When this is wrong",
    ):
        assert words in text
    assert all(columns.width(line) <= 80 for line in told.stdout.splitlines())


def test_tells_a_symptom_by_its_number_and_the_causes_that_could_explain_it(report: Path) -> None:
    told = " ".join(run("explain", "1", str(report)).stdout.split())
    assert "high_ttft, symptom" in told
    assert "24.3 s against 2 s, 3,412 of 19,870 affected" in told
    assert "Limit limit_ms = 2000" in told
    assert "+ Requests queue for the engine (78 %, provisional; explains 71 % of it)" in told
    assert "cold_start: not judged" in told


def test_tells_of_a_cause_that_is_not_in_the_report_what_would_speak_for_it(report: Path) -> None:
    told = " ".join(run("explain", "bad_instance", str(report)).stdout.split())
    assert "Not named in this report: not judged" in told
    assert "What would speak for or against it" in told


def test_names_the_nearest_rule_and_refuses_what_is_no_report(report: Path, tmp_path: Path) -> None:
    near = run("explain", "queuing", str(report))
    assert near.returncode == 2
    assert "did you mean queueing?" in near.stderr
    (tmp_path / "x.json").write_text("{}")
    other = run("explain", "queueing", str(tmp_path / "x.json"))
    assert other.returncode == 3
    assert "no report" in other.stderr


def test_reads_the_json_as_well_as_the_page(tmp_path: Path, report: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(to_json(ordinary()), encoding="utf-8")
    assert embed.read(str(path)) == embed.read(str(report)) == json.loads(to_json(ordinary()))
    with pytest.raises(InputError, match="cannot be read"):
        embed.read(str(tmp_path / "nothing"))


def test_a_shortened_report_can_be_explained() -> None:
    plain = embed.read_back(html.render(huge()))
    told = explain.render(plain, rulebook.load(), "high_ttft", encoding="ascii")
    assert told.isascii()
    assert "and " in told


class Links(HTMLParser):
    """The addresses that a page leads to, and its elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.names: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.addresses |= {value for name, value in attrs if name == "href" and value}


def test_every_rule_and_format_has_a_page_that_is_linked_and_links_only_to_pages(tmp_path: Path) -> None:
    done = run("rules", "docs", "-o", str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr
    book = rulebook.load()
    pages = {path.name: Links(path.read_text(encoding="utf-8")) for path in (tmp_path / "site").iterdir()}
    wanted = {f"{rule.page.id}.html" for rule in book.symptoms} | {f"{rule.page.id}.html" for rule in book.causes}
    assert wanted | {"litellm.html"} <= pages["index.html"].addresses
    for name, page in pages.items():
        assert page.addresses <= pages.keys() | {"#main"}, name
        assert not page.names & {"script", "img", "iframe", "form", "link"}, name
    assert "queueing.html" in pages["high_ttft.html"].addresses


def test_the_manual_has_every_command_and_every_option() -> None:
    page = run("man").stdout
    assert page.startswith(".TH LLMDOCTOR 1")
    for words in (
        r".SS analyze",
        r".SS rules docs",
        r".SS explain",
        r"\-\-fail\-on",
        r"\-\-first\-token\-timeout",
        ".B 130",
    ):
        assert words in page
    assert not [line for line in page.splitlines() if re.match(r"\.(?!TH|SH|SS|TP|PP|B |I |nf|fi)", line)]
    assert page == run("man").stdout


def test_what_cannot_be_explained_is_said_in_one_line_with_what_to_do(report: Path, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"request_id": "a"}\n{"request_id": "b"}\n')
    (tmp_path / "compared.html").write_text(f'<!doctype html><script id="{embed.COMPARISON}">{{}}</script>')
    for finding, path, says in (
        ("99", report, "99: this report has 4 findings"),
        ("0", report, "0: this report has 4 findings"),
        ("1", tmp_path / "log.jsonl", "is no report: give what -o or --json wrote"),
        ("1", tmp_path / "compared.html", "this is a comparison: give the report of one side"),
    ):
        done = run("explain", finding, str(path))
        assert done.returncode in (2, 3)
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert says in done.stderr
