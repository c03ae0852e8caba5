"""Home-made logs as teams write them: useful with no flag at all, and what was guessed is told."""

import json
from pathlib import Path

import pytest

from llmdoctor.ingest import read
from llmdoctor.store import Store

FIVE = range(5)
WANTED = "total_ms, ttft_ms, input_tokens, output_tokens"
ROW = (2345.0, 512.0, 120, 48)


def objects(make: dict[str, object]) -> str:
    """Five lines of JSON; `#` in a text stands for the number of the line."""
    return "".join(json.dumps(make, ensure_ascii=False).replace("#", str(n)) + "\n" for n in FIVE)


def three(n: int) -> str:
    lines: list[dict[str, object]] = [
        {"ts": f"2026-03-01T09:00:0{n}.000Z", "msg": "started", "id": f"h{n}", "model": "m", "prompt_tokens": 120},
        {"ts": f"2026-03-01T09:00:0{n}.512Z", "msg": "first token", "id": f"h{n}"},
        {"ts": f"2026-03-01T09:00:0{n + 2}.345Z", "msg": "finished", "id": f"h{n}", "completion_tokens": 48},
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


LOGS = {
    "camel case in milliseconds": objects(
        {
            "time": "2026-03-01T09:00:0#Z",
            "latencyMs": 2345,
            "firstTokenMs": 512,
            "promptTokens": 120,
            "completionTokens": 48,
        }
    ),
    "Chinese keys": objects(
        {
            "时间": "2026-03-01 09:00:0#",
            "首token延迟": 0.512,
            "总耗时": 2.345,
            "输入token数": 120,
            "输出token数": 48,
            "结果": "成功",
        }
    ),
    "nested": objects(
        {
            "ts": 1772355600,
            "data": {
                "id": "d#",
                "timing": {"first_token_s": 0.512, "elapsed_s": 2.345},
                "tokens": {"in": 120, "out": 48},
            },
        }
    ),
    "texts with their unit": objects(
        {"timestamp": "2026-03-01T09:00:0#Z", "duration": "2.345s", "ttft": "512ms", "n_input": 120, "n_output": 48}
    ),
    "instants": objects(
        {
            "started": "2026-03-01T09:00:0#.000Z",
            "finished": "2026-03-01T09:00:1#.000Z".replace("1#", "0#"),
            "took": 2.345,
            "firstToken": "2026-03-01T09:00:0#.512Z",
            "inTokens": 120,
            "outTokens": 48,
        }
    ),
    "logfmt": "".join(
        f'ts=2026-03-01T09:00:0{n}Z level=info msg="chat done" duration=2.345s ttft=512ms prompt_tokens=120 '
        "completion_tokens=48 status=200\n"
        for n in FIVE
    ),
    "text with pairs": "".join(
        f"2026-03-01 09:00:0{n},123 INFO app: request r{n} ttft=0.512s total=2.345s in=120 out=48 status=ok\n"
        for n in FIVE
    ),
    "Chinese text with pairs": "".join(
        f"2026-03-01 09:00:0{n} [INFO] 调用 首token耗时=512ms 总耗时=2345ms 输入=120 输出=48 结果=成功\n" for n in FIVE
    ),
    "a prefix before the object": "".join(
        f"[2026-03-01T09:00:0{n}Z] [worker-1] INFO - "
        + json.dumps(
            {"cost_time": 2.345, "first_chunk": 0.512, "usage": {"prompt_tokens": 120, "completion_tokens": 48}}
        )
        + "\n"
        for n in FIVE
    ),
    "CSV with units in the header": "时间,首字延迟(ms),总耗时(ms),输入tokens,输出tokens,状态\n"
    + "".join(f"2026/03/01 09:00:0{n},512,2345,120,48,成功\n" for n in FIVE),
    "a list in an object": json.dumps(
        {"service": "bot", "calls": [{"latency_s": 2.345, "ttft_s": 0.512, "inTokens": 120, "outTokens": 48}] * 5},
        indent=1,
    ),
    "three lines of one call": "".join(three(n) for n in FIVE),
}


@pytest.mark.parametrize("name", LOGS)
def test_a_home_made_log_is_useful_with_no_flag(tmp_path: Path, name: str) -> None:
    log = tmp_path / "app.log"
    log.write_text(LOGS[name], encoding="utf-8")
    with Store() as store:
        store.create()
        read(store, [str(log)])
        assert store.run(f"select {WANTED} from attempts") == [ROW] * 5
        assert store.run("select rejected from inputs") == [(0,)]


def test_a_guessed_unit_is_told_and_a_named_one_is_not(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(objects({"time": "2026-03-01T09:00:0#Z", "responseLatency": 2.5, "first_token_delay_ms": 512}))
    with Store() as store:
        store.create()
        read(store, [str(log)])
        note = store.run("select note from inputs")[0][0]
    assert "units guessed: responseLatency in s" in note
    assert "first_token_delay_ms" not in note


def test_values_that_cannot_be_what_a_key_says_are_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_text(objects({"latency_ms": 5, "queue": "high", "state": "ok", "in": "Berlin", "total": True}))
    with Store() as store:
        store.create()
        read(store, [str(log)])
        assert store.run("select total_ms, queue_ms, input_tokens from attempts") == [(5.0, None, None)] * 5
        assert store.run("select count(*) from bad_fields") == [(0,)]
