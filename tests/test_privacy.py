"""Nothing private leaves the machine: secrets, prompts and answers are planted everywhere in logs of every format, and
no output of the command line may hold one of them."""

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llmdoctor.cli import run
from tests.planted import ANSWER, PROMPT, SECRETS, WORDS

PAGES = sorted((Path(__file__).parents[1] / "llmdoctor" / "formats").glob("*.md"))
FORBIDDEN = (*WORDS, *(core for _, core in SECRETS.values()))
EXTRA: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": PROMPT},
        {"role": "user", "content": [{"type": "text", "text": PROMPT}]},
    ],
    "prompt": PROMPT,
    "input": [PROMPT, {"deep": {"deeper": PROMPT}}],
    "response": {"choices": [{"message": {"content": ANSWER}}]},
    "content": ANSWER,
    "error_message": f"cannot answer {PROMPT!r}",
    "whatever": {"x_note": PROMPT, "list": [ANSWER, 1, None]},
    "提示词": PROMPT,
    PROMPT: 1,
}


def _examples(page: Path) -> list[str]:
    """The lines of the log examples of a format page."""
    blocks = re.findall(r"^```log\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the scalars of a record stand."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(inner, (*path, key))
    else:
        yield path


def _with(record: Any, path: tuple[Any, ...], text: str, beside: bool) -> Any:
    """The record with a text in the place of one scalar, or behind it."""
    copy = json.loads(json.dumps(record))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = f"{place[path[-1]]} {text}" if beside and isinstance(place[path[-1]], str) else text
    return copy


def _wrong(record: Any) -> Iterator[str]:
    """One line for each field and text in its place, and some with a text behind what the field holds."""
    texts = [PROMPT, ANSWER, *(text for text, _ in SECRETS.values())]
    for number, path in enumerate(_paths(record)):
        for text in texts:
            yield json.dumps(_with(record, path, text, beside=False), ensure_ascii=False)
        for text in (PROMPT, texts[number % len(texts)]):
            yield json.dumps(_with(record, path, text, beside=True), ensure_ascii=False)


def _broken(record: Any) -> Iterator[str]:
    """Whatever else may be in a record, whole and torn anywhere, as JSON and as what only looks like it."""
    headers = {f"x-{kind}": text for kind, (text, _) in SECRETS.items()}
    for full in ({**record, **EXTRA, "headers": headers}, {"headers": headers, **EXTRA, **record}, {**EXTRA, **record}):
        line = json.dumps(full, ensure_ascii=False)
        yield from (line, line[:-1], repr(full), json.dumps({"log": line}), json.dumps({"log": line})[:-2])
        for cut in range(40, len(line), max(len(line) // 23, 1)):
            yield from (line[:cut], line[cut:], "{" + line[cut:])
        yield f"2026-01-01 10:00:00 INFO prompt={PROMPT} answer: {ANSWER} {line}"
    yield from (f"{{x: {ANSWER} {text} {PROMPT}" for text, _ in SECRETS.values())
    yield from (f'{{"x": {ANSWER}, "y": {text} {PROMPT}' for text, _ in SECRETS.values())


def _other_text(line: str) -> Iterator[str]:
    """Of a line that is no JSON: a text behind it, before it, and in the place of each of its words."""
    words = re.split(r"([\s,;|\"'=]+)", line)
    for text in (PROMPT, ANSWER, *(text for text, _ in SECRETS.values())):
        yield f"{line} {text}"
        yield f"{text} {line}"
        for number in range(0, len(words), 2):
            yield "".join([*words[:number], text, *words[number + 1 :]])


def _plant(lines: list[str]) -> list[str]:
    """Logs that read as their format, with everything planted in them. A few examples of each file are shown, so what
    is torn is spread over many."""
    records = [json.loads(line) for line in lines if line.startswith("{") and _is_json(line)]
    wrong = [text for record in records for text in _wrong(record)]
    wrong += [text for line in lines if not _is_json(line) for text in _other_text(line)]
    torn = [text for record in records[:1] for text in _broken(record)]
    pieces = [wrong[start::8] for start in range(8)] + [torn[start : start + 6] for start in range(0, len(torn), 6)]
    texts = ["\n".join([*lines, *lines, *piece]) + "\n" for piece in pieces if piece]
    for number, text in enumerate(texts, 1):
        Path(f"planted-{number}.log").write_text(text, encoding="utf-8", errors="replace")
    return [f"planted-{number}.log" for number in range(1, len(texts) + 1)]


def _is_json(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _outputs(capfd: pytest.CaptureFixture[str], folder: Path, *words: str) -> tuple[int, str]:
    """The exit code, and all that one run has put out: both streams and every file that it wrote."""
    names = [folder / f"out.{kind}" for kind in ("html", "json", "md")]
    code = run(["analyze", *words, "-o", str(names[0]), "--json", str(names[1]), "--md", str(names[2])])
    said = capfd.readouterr()
    files = [path.read_text(encoding="utf-8") for path in names if path.exists()]
    if code == 0:
        assert len(files) == len(names)
    return code, "\n".join([said.out, said.err, *files])


def _leaks(text: str) -> dict[str, str]:
    """What is found of the planted texts, with what stands around it."""
    return {word: text[max(text.find(word) - 80, 0) : text.find(word) + 80] for word in FORBIDDEN if word in text}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_output_shows_what_is_planted_in_a_log(
    page: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = _examples(page)
    assert lines
    code, text = _outputs(capfd, tmp_path, *_plant(lines), "--verbose")
    assert code in (0, 3), text
    assert _leaks(text) == {}


def _calls() -> list[dict[str, Any]]:
    return [
        {
            "vantage": "client",
            "request_id": f"r{number}",
            "started_at": f"2026-08-01T10:{number // 60:02d}:{number % 60:02d}Z",
            "total_ms": 900 + number % 7,
            "ttft_ms": 300 if number % 10 else 9000,
            "stream": True,
            "input_tokens": 100,
            "output_tokens": 40,
            "outcome": "completed",
            "http_status": 200,
            "model": "m",
            "route": "/chat",
            "instance": "a",
            "tenant": "t",
            "region": "eu",
            "app_version": "1",
        }
        for number in range(300)
    ]


@pytest.mark.parametrize("kind", ["a prompt", *SECRETS])
def test_no_output_shows_what_stands_in_the_names_of_slow_and_failed_calls(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """These names become subjects, cases, examples, timeouts and sentences of evidence."""
    text = PROMPT if kind == "a prompt" else SECRETS[kind][0]
    rows = _calls()
    for number, row in enumerate(rows):
        if number % 5 == 0:
            row.update(total_ms=60000.0, ttft_ms=45000, outcome="failed", http_status=500, error_type=text)
            row.update(dict.fromkeys(("instance", "tenant", "region", "app_version", "finish_reason"), text))
            row.update(request_id=f"{text} {number}", user_agent=text)
        row.update(model=text, route=text)
    Path("calls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for options in (["--hash-ids"], ["--verbose"]):
        code, said = _outputs(capfd, tmp_path, "calls.jsonl", *options)
        assert code == 0
        assert _leaks(said) == {}
    assert json.loads(Path("out.json").read_text())["symptoms"][0]["state"] == "present"


def test_no_output_shows_what_is_planted_in_csv(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    names = list(_calls()[0])
    table = csv.writer(out)
    table.writerow([*names, "prompt", PROMPT])
    for number, row in enumerate(_calls()):
        values = [*row.values(), PROMPT, ANSWER]
        kind = list(SECRETS)[number % len(SECRETS)]
        values[number % len(names)] = PROMPT if number % 3 else SECRETS[kind][0]
        table.writerow(values[: -(number % 5) or None])
    Path("calls.csv").write_text(out.getvalue() + f'"{PROMPT}, {ANSWER}\n')
    _, text = _outputs(capfd, tmp_path, "calls.csv", "--verbose")
    assert _leaks(text) == {}


def test_no_output_shows_a_secret_in_the_name_of_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    texts = [text for text, _ in SECRETS.values() if "/" not in text]
    names = [f"log {text} of today.jsonl" for text in texts]
    for number, name in enumerate(names):
        rows = [{**row, "request_id": f"{number} {row['request_id']}"} for row in _calls()[:20]]
        Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows) + "{broken\n")
    code, text = _outputs(capfd, tmp_path, *names, "--verbose")
    assert code == 0
    assert _leaks(text) == {}
    assert run(["formats", "detect", *names]) == 0
    assert run(["analyze", *names, "-o", f"report {texts[0]}.html"]) == 0
    assert _leaks("".join(capfd.readouterr())) == {}


@pytest.mark.parametrize(
    "words",
    [
        ["nowhere/{}"],
        ["calls.jsonl", "--where", "tenant = '{}' and"],
        ["calls.jsonl", "--where", "tenant = '{}'"],
        ["calls.jsonl", "--since", "{}"],
        ["calls.jsonl", "--tz", "{}"],
        ["calls.jsonl", "--format", "{}"],
        ["calls.jsonl", "--only", "{}"],
        ["calls.jsonl", "--set", "{}"],
        ["calls.jsonl", "--set", "high_ttft.limit_ms={}"],
        ["calls.jsonl", "--fail-on", "{}"],
        ["calls.jsonl", "--{}"],
        ["calls.jsonl", "--rules", "{}"],
        ["calls.jsonl", "-o", "nowhere/{}"],
    ],
    ids=" ".join,
)
def test_no_error_shows_a_secret(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    Path("calls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _calls()[:20]))
    every = " ".join(text for text, _ in SECRETS.values())
    assert run(["analyze", *(word.format(every) for word in words)]) in (2, 3)
    assert _leaks("".join(capfd.readouterr())) == {}


@pytest.mark.parametrize(
    "condition",
    [
        "cast(tenant as integer) > 1",
        "cast(model as timestamp) > now()",
        "cast(tenant as double[]) is null",
        "json_extract(tenant, '$.a') is null",
        "strptime(model, '%Y') is null",
    ],
)
def test_no_error_of_the_database_quotes_a_value(
    condition: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "tenant": f'it\'s "{PROMPT}"', "model": f"{ANSWER}\n{PROMPT}"} for row in _calls()[:20]]
    Path("calls.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, text = _outputs(capfd, tmp_path, "calls.jsonl", "--where", condition)
    assert code == 2
    assert "is no condition" in text
    assert _leaks(text) == {}


def test_a_run_that_finds_no_call_shows_nothing_of_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lines = [f"{text} {PROMPT}" for text, _ in SECRETS.values()]
    Path("notes.txt").write_text("\n".join(lines * 20))
    Path("other.jsonl").write_text("\n".join(json.dumps({"note": line, line: 1}) for line in lines * 20))
    code, text = _outputs(capfd, tmp_path, "notes.txt", "other.jsonl")
    assert code == 3
    assert _leaks(text) == {}


def test_a_fault_of_our_own_shows_no_data(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        float(PROMPT)

    monkeypatch.delenv("LLMDOCTOR_TRACEBACK", raising=False)
    monkeypatch.setattr("llmdoctor.ingest.find", fail)
    code, text = _outputs(capfd, tmp_path, "calls.jsonl")
    assert code == 3
    assert "ValueError" in text
    assert _leaks(text) == {}
