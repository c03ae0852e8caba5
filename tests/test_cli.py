"""The command line as a user meets it: real processes, real files, exit codes and one-line errors."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmdoctor.report import html


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A native log in which one request in ten fails."""
    rows = [
        {
            "vantage": "gateway",
            "request_id": f"r{number}",
            "started_at": f"2026-08-01T10:{number // 60:02d}:{number % 60:02d}Z",
            "total_ms": 900 + number % 7,
            "outcome": "failed" if number % 10 == 0 else "completed",
            "http_status": 500 if number % 10 == 0 else 200,
        }
        for number in range(200)
    ]
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(*words: str | Path, cwd: Path, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "llmdoctor", *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, input=stdin, capture_output=True, env={**os.environ, **environment}, check=False
    )


def complaint(result: subprocess.CompletedProcess[bytes]) -> str:
    """The one line on standard error; nothing may stand on standard output."""
    lines = result.stderr.decode().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("llmdoctor: ")
    assert result.stdout == b""
    return lines[0]


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "llmdoctor", "--help"], cwd=tmp_path, capture_output=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.decode().splitlines()}
    assert not loaded & {"duckdb", "polars", "httpx", "jinja2", "markdown_it", "asyncio", "importlib.metadata"}
    assert b"analyze" in result.stdout


def test_analyze_prints_a_summary_and_writes_three_files(log: Path, tmp_path: Path) -> None:
    result = run("analyze", log.name, "-o", "r.html", "--json", "r.json", "--md", "r.md", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.decode().endswith("Report: r.html\nReport: r.json\nReport: r.md\n")
    assert b"\x1b" not in result.stdout
    assert result.stderr == b""
    read = html.read_back((tmp_path / "r.html").read_text())
    assert read == json.loads((tmp_path / "r.json").read_text())
    assert read["command"] == "llmdoctor analyze calls.jsonl"
    assert (tmp_path / "r.md").read_text().startswith("**")
    assert {path.name for path in tmp_path.iterdir()} == {log.name, "r.html", "r.json", "r.md"}


def test_standard_input_and_output(log: Path, tmp_path: Path) -> None:
    result = run("analyze", "-", "--json", "-", "-q", cwd=tmp_path, stdin=log.read_bytes())
    assert json.loads(result.stdout)["inputs"][0]["path"] == "-"
    assert len(result.stderr.decode().splitlines()) <= 4
    both = run("analyze", log.name, "--json", "-", "--md", "-", cwd=tmp_path)
    assert both.returncode == 2
    assert "only one output" in complaint(both)


def test_fail_on_sets_the_exit_code(log: Path, tmp_path: Path) -> None:
    assert run("analyze", log.name, "-q", "--fail-on", "low", cwd=tmp_path).returncode == 1
    assert run("analyze", log.name, "-q", "--fail-on", "low", "--ignore", "errors", cwd=tmp_path).returncode == 0


def test_the_settings_file_counts_and_is_shown(log: Path, tmp_path: Path) -> None:
    (tmp_path / "llmdoctor.toml").write_text(
        'fail-on = "low"\n[ignore]\nretry_storm = "load test"\n[set]\n"errors.failed_share" = 0.9\n'
    )
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    result = run("analyze", log, "--json", "-", cwd=deep)
    shown = json.loads(result.stdout)["settings"]
    assert shown == {"settings": "llmdoctor.toml", "set errors.failed_share": "0.9", "ignore retry_storm": "load test"}


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["analyze"], 2, "Missing argument"),
        (["analyse", "x"], 2, "No such command"),
        (["analyze", "nothing.jsonl"], 3, "nothing.jsonl"),
        (["analyze", "calls.jsonl", "--profil", "x"], 2, "--profile"),
        (["analyze", "calls.jsonl", "--profile", "x"], 2, "chat"),
        (["analyze", "calls.jsonl", "--set", "errors.failed_share"], 2, "RULE.LIMIT=NUMBER"),
        (["analyze", "calls.jsonl", "--set", "errors.failed_share=x"], 2, "no number"),
        (["analyze", "calls.jsonl", "--set", "errors.failed_share=nan"], 2, "no limit"),
        (["analyze", "calls.jsonl", "--only", "erors"], 2, "errors"),
        (["analyze", "calls.jsonl", "-o", "no/such/r.html"], 2, "no folder"),
        (["analyze", "calls.jsonl", "-o", "."], 2, "folder"),
        (["analyze", "calls.jsonl", "-o", "x", "--md", "./x"], 2, "same file"),
        (["analyze", "calls.jsonl", "-q", "-v"], 2, "choose one"),
        (["analyze", "calls.jsonl", "--fail-on", "awful"], 2, "critical"),
        (["analyze", "calls.jsonl", "--format", "nope"], 2, "nope"),
        (["analyze", "calls.jsonl", "--memory", "much"], 2, "much"),
        (["rules", "show", "erors"], 2, "did you mean errors"),
        (["rules", "new", "Bad-Id"], 2, "underscores"),
        (["formats", "show", "llmdocto"], 2, "did you mean llmdoctor"),
        (["formats", "detect", "nothing.jsonl"], 3, "no such file"),
    ],
)
def test_errors_are_one_line_with_what_to_do(log: Path, tmp_path: Path, words: list[str], code: int, says: str) -> None:
    assert log.exists()
    result = run(*words, cwd=tmp_path)
    assert says in complaint(result)
    assert result.returncode == code


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('profil = "chat"', "did you mean 'profile'"),
        ("tz = 3", "tz: must be a text"),
        ('fail-on = "bad"', "low, medium, high, critical"),
        ('[set]\n"a.b" = "x"', "a.b must be a finite number"),
        ('[set]\n"a.b" = nan', "a.b must be a finite number"),
        ("only = 'x'", "list of texts"),
        ("= 1", "cannot be read as TOML"),
    ],
)
def test_a_wrong_settings_file_is_named(log: Path, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "llmdoctor.toml").write_text(text)
    result = run("analyze", log.name, cwd=tmp_path)
    assert result.returncode == 2
    line = complaint(result)
    assert says in line
    assert str(tmp_path / "llmdoctor.toml") in line


def test_a_log_is_never_replaced_by_a_report(log: Path, tmp_path: Path) -> None:
    before = log.read_bytes()
    result = run("analyze", ".", "--json", log.name, cwd=tmp_path)
    assert result.returncode == 2
    assert "one of the logs" in complaint(result)
    assert log.read_bytes() == before
    assert [run("analyze", ".", "-q", "-o", "r.html", cwd=tmp_path).returncode for _ in range(2)] == [0, 0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_behind_standard_output_is_said_so(log: Path, tmp_path: Path) -> None:
    command = f"{sys.executable} -m llmdoctor analyze -q {log.name} > /dev/full"
    result = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert result.returncode == 2
    assert "standard output cannot be written" in complaint(result)


def test_a_broken_pipe_is_quiet(tmp_path: Path) -> None:
    command = f"{sys.executable} -m llmdoctor rules list | head -n 1; {sys.executable} -m llmdoctor --help | true"
    result = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert result.stderr == b""


def test_interrupting_leaves_nothing_behind(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "llmdoctor", "analyze", "-", "-o", "r.html"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # else a child of a background job ignores it
    with subprocess.Popen(command, cwd=tmp_path, stdin=reader, stdout=-1, stderr=-1) as process:
        signal.signal(signal.SIGINT, before)
        os.write(writer, b"{}\n")
        while b"duckdb" not in Path(f"/proc/{process.pid}/maps").read_bytes():
            time.sleep(0.1)
        time.sleep(2)  # it reads standard input now and waits for more
        process.send_signal(signal.SIGINT)
        try:
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    os.close(writer)
    assert process.returncode == 130
    assert errors.decode() == "llmdoctor: interrupted while looking for files; nothing was written\n"
    assert list(tmp_path.iterdir()) == []


def test_a_new_page_passes_lint_and_its_own_examples(tmp_path: Path) -> None:
    for kind in ("symptom", "cause"):
        assert run("rules", "new", f"my_{kind}", "--kind", kind, "--rules", "mine", cwd=tmp_path).returncode == 0
        checked = run("rules", "test", f"my_{kind}", "--rules", "mine", cwd=tmp_path)
        assert checked.returncode == 0, checked.stdout
    assert b"mine/" not in run("rules", "lint", "--rules", "mine", cwd=tmp_path).stdout
    again = run("rules", "new", "my_cause", "--rules", "mine", cwd=tmp_path)
    assert "is there already" in complaint(again)
    assert b"my_cause" in run("rules", "list", "--rules", "mine", cwd=tmp_path).stdout
    shown = run("rules", "show", "my_cause", "--rules", "mine", cwd=tmp_path).stdout
    assert shown == (tmp_path / "mine" / "causes" / "my_cause.md").read_bytes()


def test_formats_are_listed_shown_and_recognised(log: Path, tmp_path: Path) -> None:
    assert b"llmdoctor" in run("formats", "list", cwd=tmp_path).stdout
    assert run("formats", "show", "llmdoctor", cwd=tmp_path).stdout.startswith(b"# ")
    assert b"calls.jsonl: llmdoctor (" in run("formats", "detect", log.name, cwd=tmp_path).stdout
