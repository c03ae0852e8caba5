"""Writes a big native log: `python tests/bench/make_log.py ROWS PATH [incident]`. Same bytes for the same arguments."""

import json
import random
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

LIMIT_MS = 30_000.0


def main(rows: int, path: Path, incident: bool = False) -> None:
    """Write `rows` native attempts, a healthy service at about ten requests a second, to `path`. `incident`: in a
    fourteenth of the log first tokens wait four seconds more, and callers give up after half a minute."""
    draw = random.Random(7)
    started_at = datetime(2026, 1, 5, tzinfo=UTC)
    with path.open("w", encoding="utf-8") as out:
        for number in range(rows):
            started_at += timedelta(milliseconds=draw.expovariate(1 / 100))
            input_tokens = int(draw.lognormvariate(6.9, 0.9))
            output_tokens = 1 + int(draw.lognormvariate(4.9, 0.8))
            ttft_ms = 80 + 0.15 * input_tokens + draw.lognormvariate(3, 0.8)
            total_ms = ttft_ms + output_tokens * draw.gauss(12, 0.5)
            failed = draw.random() < 0.002
            waited_ms = draw.expovariate(1 / 4000) if incident and 0.55 < number / rows < 0.62 else 0.0
            ttft_ms, total_ms = ttft_ms + waited_ms, total_ms + waited_ms
            given_up = incident and not failed and total_ms > LIMIT_MS
            lost = failed or given_up
            record = {
                "request_id": f"{number:032x}",
                "task_id": f"t-{number}",
                "attempt": 1,
                "vantage": "client",
                "model": draw.choice(("small-8b", "large-70b")),
                "route": draw.choice(("/chat", "/summary", "/search")),
                "operation": "chat",
                "instance": f"replica-{draw.randrange(4)}",
                "region": draw.choice(("eu", "us")),
                "tenant": f"tenant-{int(draw.paretovariate(1)) % 40}",
                "app_version": "2.8.1",
                "stream": True,
                "max_tokens": 1024,
                "input_tokens": input_tokens,
                "output_tokens": None if lost else output_tokens,
                "cached_tokens": 0,
                "started_at": started_at.isoformat(timespec="microseconds"),
                "ttft_ms": None if failed or (given_up and ttft_ms > LIMIT_MS) else round(ttft_ms, 3),
                "queue_ms": round(waited_ms, 3) if incident and not lost else None,
                "total_ms": round(120.0 if failed else LIMIT_MS if given_up else total_ms, 3),
                "timeout_ms": LIMIT_MS if given_up else None,
                "chunks": None if lost else output_tokens,
                "max_gap_ms": None if lost else round(draw.lognormvariate(3.2, 0.3), 3),
                "outcome": "failed" if failed else "timeout" if given_up else "completed",
                "http_status": 500 if failed else None if given_up else 200,
                "error_type": "server_error" if failed else None,
                "finish_reason": None if lost else "stop",
                "prompt_hash": f"{draw.getrandbits(64):016x}",
            }
            out.write(json.dumps({key: value for key, value in record.items() if value is not None}) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:] == ["incident"])
