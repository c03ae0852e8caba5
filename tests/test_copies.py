"""The same calls told twice at one vantage count once."""

import json
from pathlib import Path

from llmdoctor.ingest import read
from llmdoctor.store import Store


def test_what_the_sdk_writes_beside_the_log_of_its_application_counts_once(tmp_path: Path) -> None:
    calls = [
        {"request_id": f"r{n}", "t_start": 1772355600 + n, "latency": 2.0, "model": "m", "status": "ok"}
        for n in range(5)
    ]
    (tmp_path / "client.jsonl").write_text("".join(json.dumps(call) + "\n" for call in calls))
    lines = [
        f'2026-03-01 09:00:0{n + 2},000 INFO httpx HTTP Request: POST http://x/v1/chat/completions "HTTP/1.1 200 OK"\n'
        for n in range(5)
    ]
    late = '2026-03-01 10:30:00,000 INFO httpx HTTP Request: POST http://x/v1/chat/completions "HTTP/1.1 200 OK"\n'
    (tmp_path / "sdk.log").write_text("".join(lines) + late)
    with Store() as store:
        store.create()
        notes = read(store, [str(tmp_path)])
        assert store.run("select count(*), count(total_ms) from attempts") == [(6, 5)]
        assert store.run("select doubled from inputs order by path") == [(0,), (5,)]
        assert any("5 calls of openai_sdk_log are told by another log" in note for note in notes)
        assert store.run("select lines = rows + rejected + blank + foreign_lines from inputs") == [(True,), (True,)]
