"""Signs of life and Ctrl-C, with real processes: one line, and nothing left behind, at any moment."""

import json
import os
import pty
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from llmdoctor.ingest import Meter, ReadOptions, read
from llmdoctor.ingest.meter import amount
from llmdoctor.store import Store


def write_log(path: Path, rows: int, texts: bool = False) -> None:
    """A native log, or one of text lines that Python has to read."""
    with path.open("w") as out:
        for n in range(rows):
            at = f"{n // 3600 % 24:02d}:{n // 60 % 60:02d}:{n % 60:02d}"
            if texts:
                line = f'10.0.0.1 - - [05/Jan/2026:{at} +0000] "POST /v1/chat/completions HTTP/1.1" 200 {n} "-" "c/1"'
            else:
                values = {"request_id": f"r{n}", "started_at": f"2026-01-05T{at}Z", "total_ms": n % 977}
                line = json.dumps(values | {"outcome": "completed", "model": f"m{n % 5}"})
            out.write(line + "\n")


class Running:
    """llmdoctor at work in a folder of its own, with a scratch folder of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.scratch = folder / "scratch"
        self.work = folder / "work"
        self.scratch.mkdir(exist_ok=True)
        self.work.mkdir(exist_ok=True)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # else a child of a background job ignores it
        self.process = subprocess.Popen(
            [sys.executable, "-m", "llmdoctor", *words],
            cwd=self.work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(self.scratch)},
        )
        signal.signal(signal.SIGINT, before)

    def until(self, seen: Callable[[], bool]) -> None:
        while not seen() and self.process.poll() is None:
            time.sleep(0.002)

    def interrupted(self) -> str:
        """Presses Ctrl-C; returns what it said, after looking that nothing is left."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        out, errors = self.process.communicate(timeout=120)
        assert list(self.scratch.iterdir()) == []
        if self.process.returncode == 130:
            assert out == b""
            assert len(errors.decode().strip().splitlines()) == 1, errors
        return errors.decode()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.parametrize("delay_ms", [0, 20, 50, 90, 150, 300, 600])
def test_ctrl_c_soon_after_the_start(work: Path, delay_ms: int) -> None:
    write_log(work / "a.log", 1000)
    running = Running(work.parent, "analyze", "a.log", "-o", "r.html", "--save", "s.duckdb")
    time.sleep(delay_ms / 1000)
    said = running.interrupted()
    # Before Python has set up anything of ours, Ctrl-C ends it as it ends any Python program.
    # A native library whose loading is cut short may abort.
    assert running.process.returncode in (130, -signal.SIGINT, -signal.SIGABRT, 1, 0)
    if running.process.returncode == 130:
        assert said.strip().startswith("llmdoctor: interrupted")
    elif running.process.returncode:
        assert said == "" or "KeyboardInterrupt" in said or said.startswith("llmdoctor: interrupted")
    if running.process.returncode != 0:
        assert [name for name in names(work) if name.startswith(".")] == []


@pytest.mark.parametrize("texts", [False, True], ids=["by the database", "by Python"])
def test_ctrl_c_while_reading_says_how_far_it_got(work: Path, texts: bool) -> None:
    write_log(work / "a.log", 400_000, texts)
    running = Running(work.parent, "analyze", "a.log", "-o", "r.html", "--save", "s.duckdb")
    running.until(lambda: names(running.scratch) != [])
    time.sleep(0.4)
    said = running.interrupted()
    assert running.process.returncode == 130
    assert re.fullmatch(r"llmdoctor: interrupted while .+; nothing was written\n", said), said
    assert names(work) == ["a.log"]


def test_ctrl_c_while_the_store_is_written_leaves_the_old_one(work: Path) -> None:
    write_log(work / "a.log", 1000)
    first = Running(work.parent, "analyze", "a.log", "--save", "s.duckdb", "-q")
    first.process.communicate(timeout=120)
    before = (work / "s.duckdb").read_bytes()
    write_log(work / "b.log", 300_000)
    running = Running(work.parent, "analyze", "s.duckdb", "b.log", "--save", "s.duckdb", "-o", "r.html")
    running.until(lambda: any(name.startswith(".s.duckdb.") for name in names(work)))
    said = running.interrupted()
    assert running.process.returncode == 130
    assert "nothing was written" in said
    assert (work / "s.duckdb").read_bytes() == before
    assert names(work) == ["a.log", "b.log", "s.duckdb"]


def test_ctrl_c_after_the_store_is_written_names_it(work: Path) -> None:
    write_log(work / "a.log", 200_000)
    running = Running(work.parent, "analyze", "a.log", "--save", "s.duckdb", "-o", "r.html")
    running.until(lambda: "s.duckdb" in names(work))
    time.sleep(0.1)
    said = running.interrupted()
    assert names(work) == ["a.log", "s.duckdb"]
    assert said.endswith("; s.duckdb was written\n")


def test_a_full_disk_leaves_the_old_store(work: Path) -> None:
    write_log(work / "a.log", 50_000)
    write_log(work / "old.log", 20, texts=True)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))

    command = [sys.executable, "-m", "llmdoctor", "analyze", "--save", "s.duckdb", "-q"]
    subprocess.run([*command, "old.log"], cwd=work, check=True, capture_output=True)
    before = (work / "s.duckdb").read_bytes()
    result = subprocess.run(
        [*command, "s.duckdb", "a.log"], cwd=work, check=False, capture_output=True, preexec_fn=limited
    )
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith(b"llmdoctor: s.duckdb: cannot be written")
    assert result.stderr.count(b"\n") == 1
    assert (work / "s.duckdb").read_bytes() == before
    assert names(work) == ["a.log", "old.log", "s.duckdb"]


def test_a_full_scratch_folder_is_said_in_one_line(work: Path) -> None:
    write_log(work / "a.log", 20_000, texts=True)  # Python makes a copy that the database can read
    command = [sys.executable, "-m", "llmdoctor", "analyze", "a.log"]
    result = subprocess.run(
        command,
        cwd=work,
        check=False,
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert result.returncode == 3
    assert b"set TMPDIR" in result.stderr
    assert result.stderr.count(b"\n") == 1


def on_terminal(work: Path, *words: str) -> str:
    """What a terminal sees of standard error."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "llmdoctor", "analyze", *words]
    with subprocess.Popen(command, cwd=work, stdin=subprocess.DEVNULL, stdout=-1, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # how Linux says that the other end is closed
                break
            if not piece:
                break
            seen += piece
        process.communicate(timeout=120)
    os.close(ours)
    return seen.decode()


def test_progress_is_shown_on_a_terminal_and_wiped_away(work: Path) -> None:
    write_log(work / "a.log", 250_000, texts=True)
    seen = on_terminal(work, "a.log")
    assert re.search(r"llmdoctor: reading \d+ MB, \d+ %, [\d.]+ [kM]?B/s, \d+ s left", seen), seen
    assert seen.endswith("\r\x1b[K")
    write_log(work / "a.log", 150_000, texts=True)
    assert on_terminal(work, "a.log", "-q") == ""


def test_progress_never_goes_to_a_pipe(work: Path) -> None:
    write_log(work / "a.log", 150_000, texts=True)
    running = Running(work.parent, "analyze", "a.log", "-q")
    assert running.process.communicate(timeout=120)[1] == b""


def test_a_meter_ends_at_the_whole(tmp_path: Path) -> None:
    write_log(tmp_path / "a.log", 2000)
    write_log(tmp_path / "b.log", 2000, texts=True)
    meter = Meter()
    assert meter.text() == meter.reached() == "looking for files"
    with Store() as store:
        store.create()
        read(store, [str(tmp_path)], ReadOptions(), meter=meter)
    assert meter.text() == "putting the rows in order"


def test_amounts_have_two_digits_or_more() -> None:
    assert [amount(size) for size in (0, 999, 1000, 9_949, 12_345_678, 1_100_000_000, 2e13)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "9.9 kB",
        "12 MB",
        "1.1 GB",
        "20,000 GB",
    ]
