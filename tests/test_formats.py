"""Every format page keeps its contract, and its examples come out as it says."""

from pathlib import Path

import pytest

from llmdoctor.errors import PageError, UsageError
from llmdoctor.ingest import examples
from llmdoctor.ingest.detect import detect
from llmdoctor.ingest.fields import split_path
from llmdoctor.ingest.formats import Format, format_named, load_formats, parse_format
from llmdoctor.pages import parse_page
from llmdoctor.store import Store

PAGES = load_formats()
KNOWLEDGE = {"json_app", "litellm", "llmdoctor", "nginx_json", "prometheus_vllm"}

GOOD = """# A log

```toml
needs = ["a"]
```

## Fields

```toml
total_ms = { path = "$.a", unit = "s" }
```

## Rows

```sql
select total_ms from fields
```

## Examples

```log
{"a": 1.5}
```

```jsonl
{"total_ms": 1500}
```
"""


def page(text: str) -> Format:
    return parse_format(parse_page("mine", "mine.md", text))


@pytest.mark.parametrize("fmt", PAGES, ids=lambda fmt: fmt.id)
def test_the_examples_of_the_page_come_out(fmt: Format) -> None:
    assert examples.test_format(fmt) == []


@pytest.mark.parametrize("fmt", PAGES, ids=lambda fmt: fmt.id)
def test_the_page_names_its_source(fmt: Format) -> None:
    assert fmt.url
    assert fmt.url.startswith("https://")
    assert fmt.product
    assert fmt.vantage


def test_the_promised_pages_are_there() -> None:
    assert {fmt.id for fmt in PAGES} >= KNOWLEDGE


def test_the_native_page_has_every_column_of_every_table() -> None:
    native = format_named(PAGES, "llmdoctor")
    assert native.native
    with Store() as store:
        store.create()
        for table in ("attempts", "chunks", "stages", "task_events", "engine_samples", "facts"):
            assert set(store.columns(table)) - {"attempt_id", "input_id", "line"} <= set(native.fields)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('needs = ["a"]', 'need = ["a"]', 4, "unknown key 'need'"),
        ('needs = ["a"]', 'vantage = "client"', 4, "by which keys"),
        ('needs = ["a"]', 'needs = ["a"]\nshape = "xml"', 4, "shape is one of"),
        ('needs = ["a"]', "needs = [", 4, "not valid TOML"),
        ("## Rows", "## Columns", 13, "unknown heading 'Columns'"),
        ('unit = "s"', 'unit = "hours"', 10, "unit 'hours'"),
        ('unit = "s"', 'units = "s"', 10, "unknown key 'units'"),
        ('"$.a"', '"a"', 10, "no path"),
        ("select total_ms", "with x as (select 1) select total_ms", 16, "begins with 'select'"),
        ("```jsonl\n", "```json\n", 26, "pairs"),
    ],
)
def test_a_broken_page_is_named_with_file_line_and_key(old: str, new: str, line: int, words: str) -> None:
    with pytest.raises(PageError, match=words) as error:
        page(GOOD.replace(old, new))
    assert str(error.value).startswith("mine.md:")
    assert abs(error.value.line - line) <= 1


def test_a_folder_without_format_pages_is_told(tmp_path: Path) -> None:
    (tmp_path / "formats").mkdir()
    with pytest.raises(UsageError, match="no format pages in it"):
        load_formats([tmp_path])


def test_one_file_is_a_new_format(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "mine.md").write_text(GOOD.replace('needs = ["a"]', 'needs = ["a"]\nvantage = "engine"'))
    formats = load_formats([tmp_path / "pages"])
    log = tmp_path / "x.log"
    log.write_text('{"a": 2}\n')
    assert next(one.format.id for one in detect(log, formats).candidates) == "mine"
    assert examples.test_format(format_named(formats, "mine"), [tmp_path / "pages"]) == []


def test_a_wrong_example_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text(GOOD.replace("1500", "1501"))
    failures = examples.test_format(format_named(load_formats([tmp_path]), "mine"), [tmp_path])
    assert len(failures) == 1
    assert "total_ms = 1500.0, expected 1501" in failures[0]


def test_an_unknown_format_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="llmdoctor"):
        format_named(PAGES, "ngnix")


def test_paths_are_split_at_dots_outside_quotes() -> None:
    assert split_path('$.a."b.c"[0].d') == ("a", "b.c", "[0]", "d")
    assert split_path("a.b") == ()
    assert split_path("$[0]") == ()


SAMPLES = {
    "litellm": '{"litellm_call_id": "c", "call_type": "acompletion", "startTime": 1.0, "custom_llm_provider": "x"}\n',
    "nginx_json": '{"request_time": 0.1, "status": 200, "msec": 1.0, "upstream_response_time": "0.1"}\n',
    "envoy_json": '{"response_flags": "-", "response_code": 200, "duration": 12}\n',
    "json_app": '{"ts": 1795597928, "model": "m", "latency": 1.5}\n',
    "prometheus_vllm": 'vllm:num_requests_waiting{engine="0"} 31.0\n',
    "llmdoctor": '{"started_at": "2026-01-05T00:00:00Z", "total_ms": 5}\n',
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_is_recognised_by_its_keys_and_the_reason_is_told(name: str, tmp_path: Path) -> None:
    log = tmp_path / "whatever.txt"
    log.write_text(SAMPLES[name] * 3)
    found = detect(log)
    assert found.format is not None
    assert found.format.id == name
    assert found.reason
