"""Run one scenario with real components and write the logs of all its vantages, and what must be found in them.

.venv-real/bin/python -m tests.real.record SCENARIO OUT_DIR
.venv-real/bin/python -m tests.real.record --all sample_logs
"""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.real.attempt import Row
from tests.real.chain import Chain
from tests.real.client import Log
from tests.real.scenarios import SCENARIOS, Scenario

LIMIT_S = 240.0


def homemade(row: Row) -> Row:
    """The row as an application's own log writes it: time of the end, seconds and milliseconds mixed, nesting."""
    line: Row = {"ts": row["ended_at"], "level": "info", "event": "llm_call", "request_id": row["request_id"]}
    line |= {"user": row["caller"], "model": row["model"], "stream": row["stream"], "max_tokens": row["max_tokens"]}
    line |= {"latency_ms": round(float(str(row["total_ms"])))}
    if "ttft_ms" in row:
        line["ttft"] = round(float(str(row["ttft_ms"])) / 1000, 4)
    if "output_tokens" in row:
        line["usage"] = {"prompt_tokens": row["input_tokens"], "completion_tokens": row["output_tokens"]}
    if row["outcome"] == "completed":
        return line | {"status": "ok", "finish_reason": row["finish_reason"]}
    return line | {"level": "error", "status": "error", "error": row.get("error_type"), **code(row)}


def code(row: Row) -> Row:
    """The HTTP status, where there was one."""
    return {"http_status": row["http_status"]} if "http_status" in row else {}


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    """One JSON object a line."""
    path.write_text("".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))


def copy_calls(source: Path, target: Path, mark: str) -> int:
    """Copy a component's log as it is; returns how many of its lines are calls (contain `mark`)."""
    text = source.read_text()
    # mtime=0: the same log packs to the same bytes
    target.write_bytes(gzip.compress(text.encode(), mtime=0) if target.suffix == ".gz" else text.encode())
    return sum(mark in line for line in text.splitlines())


def write(scenario: Scenario, log: Log, samples: list[Row], work: Path, out: Path) -> None:
    """Write the logs and expect.toml into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    for old in [*out.glob("*.jsonl*"), *out.glob("nginx.log"), *out.glob("expect.toml")]:
        old.unlink()  # an earlier recording
    rows = log.rows()
    if scenario.homemade:
        lines = sorted((homemade(attempt.row() | {"ended_at": attempt.ended_at()}) for attempt in log.attempts), key=ts)
    else:
        lines = rows + log.chunk_rows(scenario.chunk_streams)
    write_lines(out / "client.jsonl", lines)
    files = {"client.jsonl": len(rows)}
    if (work / "nginx.conf").exists():
        files["nginx.log"] = copy_calls(work / "nginx.log", out / "nginx.log", "/chat/completions")
    if (work / "litellm.yaml").exists():
        # Packed, as a rotated log is: LiteLLM writes some 4 KB a call.
        files["litellm.jsonl.gz"] = copy_calls(work / "litellm.jsonl", out / "litellm.jsonl.gz", "acompletion")
    if samples:
        write_lines(out / "engine.jsonl", samples)
        files["engine.jsonl"] = 0
    (out / "expect.toml").write_text(expectation(scenario, files))


def ts(line: Row) -> str:
    """The instant of an application's log line: such a log is ordered by it."""
    return str(line["ts"])


def expectation(scenario: Scenario, files: dict[str, int]) -> str:
    """The text of expect.toml: what must be found, and how many attempts each file holds."""
    found = f'cause = "{scenario.cause}"' if scenario.cause else 'verdict = "healthy"'
    counts = ", ".join(f'"{name}" = {rows}' for name, rows in files.items())
    how = f'how = "{scenario.how}"'
    return f"{found}\nsymptoms = {json.dumps(list(scenario.symptoms))}\nfiles = {{{counts}}}\n{how}\n"


async def run(scenario: Scenario, chain: Chain) -> tuple[Log, list[Row]]:
    """Run the load; raises TimeoutError after LIMIT_S."""
    log = Log()
    samples = await asyncio.wait_for(scenario.run(chain, log), LIMIT_S)
    return log, samples


def record(name: str, out: Path) -> None:
    """Record one scenario into `out`."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="llmdoctor-real-") as folder:
        work = Path(folder)
        with Chain(work) as chain:
            log, samples = asyncio.run(run(SCENARIOS[name], chain))
            chain.check()
        write(SCENARIOS[name], log, samples, work, out)
    print(f"{name}: {len(log.attempts)} attempts in {time.monotonic() - begun:.0f} s -> {out}", flush=True)


def main(words: list[str]) -> int:
    """Exit code 0, or 2 with the list of scenarios. A SIGTERM ends the parts too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    match words:
        case ["--all", folder]:
            for name in SCENARIOS:
                record(name, Path(folder) / name)
        case [name, folder] if name in SCENARIOS:
            record(name, Path(folder))
        case _:
            print(f"usage: record SCENARIO OUT_DIR | --all OUT_DIR\nscenarios: {', '.join(SCENARIOS)}", file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
