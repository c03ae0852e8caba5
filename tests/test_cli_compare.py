"""`llmdoctor compare` and `analyze --baseline` as a user meets them: real processes, real files, exit codes."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.before_after import Service, rows
from tests.filled import START
from tests.test_report_html import Page

CALM, TAIL = Service(n=300), Service(n=300, wait_share=0.2)


def run(*words: str | Path, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmdoctor", *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, input=stdin.decode(), capture_output=True, text=True, check=False, env={**os.environ}
    )


def write(path: Path, made: list[dict[str, Any]], late_s: float = 0.0) -> None:
    """A native log; the instants as a log has them."""
    lines = []
    for row in made:
        at = START + timedelta(seconds=row.pop("at_s") + late_s)
        lines.append(json.dumps({**row, "started_at": at.isoformat()}))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log before and after a fix, the reports and the store of the one before, and both logs in one."""
    place = tmp_path_factory.mktemp("compare")
    # One cause, so that not all are asked.
    (place / "llmdoctor.toml").write_text('only = ["errors", "high_ttft", "tail_latency", "queueing"]\n')
    write(place / "before.jsonl", rows(1, TAIL))
    write(place / "after.jsonl", rows(2, CALM))
    (place / "both").mkdir()
    write(place / "both" / "day.jsonl", rows(1, TAIL))
    later = [
        {**row, "request_id": f"later-{row['request_id']}", "task_id": f"later-{row['task_id']}"}
        for row in rows(2, CALM)
    ]
    write(place / "both" / "night.jsonl", later, 3600)
    outputs = ("-o", "before.html", "--json", "before.json", "--save", "before.db")
    done = run("analyze", "before.jsonl", "-q", *outputs, cwd=place)
    assert done.returncode == 0, done.stderr
    assert run("analyze", "after.jsonl", "-q", "--json", "after.json", cwd=place).returncode == 0
    return place


@pytest.fixture(scope="module")
def fixed(folder: Path) -> dict[str, Any]:
    """What the comparison of both logs says."""
    done = run("compare", "before.jsonl", "after.jsonl", "--json", "-", "-q", cwd=folder)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_one_screen_of_eighty_columns(folder: Path) -> None:
    done = run("compare", "before.json", "after.json", cwd=folder)
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.startswith("FIXED: First tokens: the tail is fixed")
    assert len(done.stdout.splitlines()) <= 40
    assert max(map(len, done.stdout.splitlines())) <= 80


@pytest.mark.parametrize("before", ["before.html", "before.json", "before.db"])
def test_a_report_a_store_and_a_log_say_the_same(folder: Path, fixed: dict[str, Any], before: str) -> None:
    done = run("compare", before, "after.json", "--json", "-", "-q", cwd=folder)
    found = json.loads(done.stdout)
    assert found["before"]["kind"] == ("store" if before.endswith("db") else "report")
    for key in ("verdict", "figures", "findings", "changed", "warnings"):
        assert found[key] == fixed[key]


def test_two_windows_of_one_log_are_two_logs(folder: Path, fixed: dict[str, Any]) -> None:
    noon = (START + timedelta(minutes=30)).isoformat()
    done = run("compare", "both", "--window", f"..{noon}", "--window", f"{noon}..", "--json", "-", "-q", cwd=folder)
    found = json.loads(done.stdout)
    assert found["figures"] == fixed["figures"]
    assert found["verdict"]["level"] == "fixed"
    assert f"--window ..{noon}" in found["command"]


def test_the_same_log_twice_is_said_to_be_one(folder: Path) -> None:
    for before, after in (("before.json", "before.html"), ("before.jsonl", "before.json")):
        done = run("compare", before, after, "--fail-on-regression", cwd=folder)
        assert done.returncode == 0
        assert done.stdout.startswith("NO CHANGE: Both sides are the same log: nothing can have changed.")


def test_a_regression_of_an_older_log_may_be_a_fix_the_wrong_way_round(folder: Path, tmp_path: Path) -> None:
    later = [{**row, "request_id": f"later-{row['request_id']}"} for row in rows(2, CALM)]
    write(tmp_path / "later.jsonl", later, 7200)
    (tmp_path / "llmdoctor.toml").write_text((folder / "llmdoctor.toml").read_text())
    note = "Note: AFTER is older than BEFORE"
    assert note in run("compare", "later.jsonl", folder / "before.json", cwd=tmp_path).stdout
    assert note not in run("compare", folder / "before.json", "later.jsonl", cwd=tmp_path).stdout
    assert note not in run("compare", "after.json", "before.json", cwd=folder).stdout


def test_a_regression_fails_where_that_was_asked_for(folder: Path) -> None:
    words = ("compare", "after.json", "before.html", "-q")
    assert run(*words, cwd=folder).returncode == 0
    assert run(*words, "--fail-on-regression", cwd=folder).returncode == 1
    assert run("compare", "before.json", "after.json", "-q", "--fail-on-regression", cwd=folder).returncode == 0


def test_all_outputs_are_written_and_named(folder: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / name for name in ("c.html", "c.json", "c.md")]
    words = ("-o", outputs[0], "--json", outputs[1], "--md", outputs[2])
    done = run("compare", "before.html", "after.json", *words, cwd=folder)
    assert [line for line in done.stdout.splitlines() if line.startswith("Report: ")]
    page = Page(outputs[0].read_text())
    assert (page.faults, page.open) == ([], [])
    assert not [tag for tag, attributes in page.tags if "src" in attributes or "onclick" in attributes]
    assert outputs[0].stat().st_size < 200_000
    assert "within noise" in " ".join(page.words)
    assert outputs[2].read_text().splitlines()[0] in "".join(page.words)  # the text for the ticket
    assert len(outputs[2].read_text()) < 4000
    assert json.loads(outputs[1].read_text())["verdict"]["level"] == "fixed"
    again = run("compare", "before.html", "after.json", "-o", "-", "-q", cwd=folder)
    assert again.stdout == outputs[0].read_text()


def test_standard_input_is_one_side(folder: Path, fixed: dict[str, Any]) -> None:
    log = (folder / "after.jsonl").read_bytes()
    done = run("compare", "before.json", "-", "--json", "-", "-q", cwd=folder, stdin=log)
    assert json.loads(done.stdout)["figures"] == fixed["figures"]


def test_the_report_of_an_analysis_tells_of_its_baseline(folder: Path, fixed: dict[str, Any], tmp_path: Path) -> None:
    words = (
        "--baseline",
        "before.json",
        "-o",
        tmp_path / "r.html",
        "--json",
        tmp_path / "r.json",
        "--md",
        tmp_path / "r.md",
    )
    done = run("analyze", "after.jsonl", *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "Fixed against before.json: First tokens: the tail is fixed" in done.stdout
    told = json.loads((tmp_path / "r.json").read_text())
    assert told["baseline"]["level"] == "fixed"
    assert told["baseline"]["text"] == fixed["verdict"]["text"]
    assert told["command"].startswith("llmdoctor analyze after.jsonl --baseline before.json")
    assert "**Fixed** against before.json" in (tmp_path / "r.md").read_text()
    assert "Against before.json" in (tmp_path / "r.html").read_text()


def test_without_a_baseline_there_is_none(folder: Path) -> None:
    assert json.loads((folder / "before.json").read_text())["baseline"] is None


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["compare", "before.jsonl"], 2, "compare takes BEFORE and AFTER, not 1 paths"),
        (["compare", "before.jsonl", "nothing.jsonl"], 3, "nothing.jsonl"),
        (["compare", "before.jsonl", "after.jsonl", "--window", "1h.."], 2, "give it twice, with one PATH"),
        (["compare", "both", "--window", "1h", "--window", "1h.."], 2, "FROM..TO"),
        (["compare", "-", "--window", "..1h", "--window", "1h.."], 2, "standard input can be read once only"),
        (["compare", "-", "-"], 2, "only one side"),
        (["compare", "torn.html", "after.jsonl"], 3, "torn.html"),
        (["compare", "torn.json", "after.jsonl"], 3, "torn.json: the report is damaged"),
        (["compare", "before.jsonl", "after.jsonl", "-o", "no/such/c.html"], 2, "no folder"),
        (["analyze", "after.jsonl", "--baseline", "nothing.json"], 3, "nothing.json"),
        (["analyze", "after.jsonl", "--baseline", "-"], 2, "standard input is for the logs"),
    ],
)
def test_errors_are_one_line_with_what_to_do(folder: Path, words: list[str], code: int, says: str) -> None:
    (folder / "torn.html").write_text((folder / "before.html").read_text()[:2000])
    (folder / "torn.json").write_text((folder / "before.json").read_text()[:2000])
    done = run(*words, cwd=folder)
    assert done.returncode == code
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
    assert done.stdout == ""


SAMPLES = Path(__file__).parents[1] / "sample_logs"


def test_a_finding_is_new_where_the_figure_of_the_same_attempts_says_so(tmp_path: Path) -> None:
    done = run("compare", SAMPLES / "healthy", SAMPLES / "client_timeout_short", "--json", "-", cwd=tmp_path)
    found = json.loads(done.stdout)
    [share] = [one for one in found["figures"] if one["name"] == "timeout_share"]
    [finding] = [one for one in found["findings"] if one["id"] == "client_timeouts"]
    assert (share["state"], finding["turn"]) == ("worse", "appeared")


def test_a_probe_has_no_number_of_requests_and_its_lines_are_not_taken_for_one(tmp_path: Path) -> None:
    row = {"vantage": "probe", "hop": "public", "variant": "stream", "stream": True, "outcome": "completed"}
    lines = [
        {**row, "request_id": f"public-stream-{n}", "ttft_ms": 100, "total_ms": 900, "started_at": START.isoformat()}
        for n in range(6)
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    said = run("compare", "t.jsonl", "t.jsonl", cwd=tmp_path).stdout
    assert "Before: t.jsonl, 20" in said
    assert "requests" not in said
