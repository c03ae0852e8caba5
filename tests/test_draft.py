"""`formats new` and `formats detect`: from a log of one's own to a page of one's own."""

import json
import subprocess
import sys
from pathlib import Path


def run(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "llmdoctor", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


def home_made(folder: Path) -> None:
    """Seconds without a unit in the key, a prompt, and a key nobody knows."""
    record = {"modelName": "m", "latency": 1.5, "first_token_time": 0.4, "usage": {"prompt_tokens": 7}}
    more = {"prompt": "the secret plan", "colour": "green", "user_id": "u-1"}
    lines = [json.dumps({**record, **more, "request_id": f"r{number}"}) for number in range(5)]
    (folder / "app.log").write_text("\n".join(lines) + "\n")


def test_a_draft_passes_its_own_examples_and_reads_its_log(tmp_path: Path) -> None:
    home_made(tmp_path)
    made = run("formats", "new", "our_app", "--from", "app.log", "--formats", "pages", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    text = (tmp_path / "pages" / "our_app.md").read_text()
    assert 'total_ms     = { path = "$.latency", unit = "s", guess = true }  # GUESS' in text
    assert "# $.colour" in text
    assert "secret plan" not in text
    assert "green" not in text
    tested = run("formats", "test", "our_app", "--formats", "pages", cwd=tmp_path)
    assert tested.stdout == "1 held, 0 failed\n"
    read = run("analyze", "app.log", "--formats", "pages", "--json", "-", cwd=tmp_path)
    assert json.loads(read.stdout)["inputs"][0]["format"] == "our_app"


def test_a_page_is_drafted_from_lines_of_text(tmp_path: Path) -> None:
    lines = [f'2026-01-05 10:00:0{n} chat model="gpt" took {500 + n} ms tokens 4{n}' for n in range(5)]
    (tmp_path / "t.log").write_text("starting\n" + "\n".join(lines) + "\n")
    assert run("formats", "new", "our_text", "--from", "t.log", cwd=tmp_path).returncode == 0
    assert run("formats", "test", "our_text", "--formats", "formats", cwd=tmp_path).stdout == "1 held, 0 failed\n"
    read = run("analyze", "t.log", "--formats", "formats", "--json", "-", cwd=tmp_path)
    counts = json.loads(read.stdout)["inputs"][0]
    assert (counts["lines"], counts["rows"], counts["foreign"]) == (6, 5, 1)


def test_what_cannot_be_drafted_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    home_made(tmp_path)
    (tmp_path / "other.log").write_text('{"colour": "green"}\n')
    (tmp_path / "formats").mkdir()
    (tmp_path / "formats" / "there.md").write_text("# There\n")
    for words, code, says in (
        (("Bad-Name", "--from", "app.log"), 2, "small letters"),
        (("there", "--from", "app.log"), 2, "is there already"),
        (("page", "--from", "nothing.log"), 3, "no such file"),
        (("page", "--from", "other.log"), 3, "--map FIELD=PATH"),
    ):
        result = run("formats", "new", *words, cwd=tmp_path)
        assert (result.returncode, result.stdout) == (code, "")
        assert says in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_detect_says_what_is_filled_guessed_and_missing(tmp_path: Path) -> None:
    home_made(tmp_path)
    said = run("formats", "detect", "app.log", cwd=tmp_path).stdout
    assert said.startswith("app.log: json_app (5 of 5 records looked at have latency)\n")
    assert "one JSON object a line; 5 of 5 are LLM calls" in said
    assert "guessed  latency in s, first_token_time in s" in said
    assert "missing  " in said
    assert "output_tokens (for" in " ".join(said.split())
    (tmp_path / "docker.log").write_text(
        '{"log":"{\\"latency_ms\\":5}\\n","stream":"stdout","time":"2026-01-05T10:00:00Z"}\n'
    )
    assert (
        "one JSON object a line, json envelope; 1 of 1" in run("formats", "detect", "docker.log", cwd=tmp_path).stdout
    )
