"""How much the whole of `analyze` costs beside only reading the file: `python -m tests.bench.bench`. Asserts nothing.

A million native lines, healthy and with an incident; `python -m llmdoctor analyze FILE --json /dev/null` against two
typed `read_json` of the healthy ones into a table: of the columns that the log has, and of all canonical ones, which a
reader needs who does not know beforehand what a log has. Each in a process of its own, interleaved. CPU seconds are
those of the process, peak RSS is the kernel's. Measured, not asserted: machines differ, the ratios much less.

What was learned: of the difference between the two reads, two thirds are the storing of empty columns and one third the
looking for absent keys (so all are looked for, and only those that occur are stored). To prove by the bytes that no
other key occurs costs more than looking for them: Aho-Corasick over the names 0.7 CPU s a GB or more, counting `":`
0.6. An inner join of two million-row tables by attempt_id takes half of what a left join does.
A condition that drops a few rows before such a join doubles its cost: DuckDB expects a fifth to be left and builds its
table on the wide side. To write the expected figures into the rows of `attempts` by UPDATE takes a second; a text
column costs 25 ms to store and a number 5, for a million rows. So the two tables stand in one order and meet by a
positional join, which costs as little as one wide table, but is one thread's work. The planner takes it for empty, and
puts all its rows on the side that is held in memory; a branch of a union that gives no row (`where rowid < 0`) is
enough for a right estimate. A field that only the incident has made the whole file be read twice: what is in columns
that were not expected comes as JSON with the first read. An enum costs a sixth of a text to compare or to group by, and
20 ms to make; to find which values a text has takes longer than that saves in most columns.
A scan of some columns with a sum each takes 15 ms, a median 18, a join by attempt_id 30 (from a million rows on, where
DuckDB's table of dense numbers ends, five times as much a row), `count(*)` by distinct texts 130, a sort for a window
140 and its running maximum 500. A CTE that is named twice is written down whole: of many columns that costs more than
reading them again, which a view is. A sum over integers is a HUGEINT, and what is reckoned with it crawls: cast it.
Joins of spans with spans (two inequalities) never end: sum what had happened by each moment (hol_long_prompts.md).
A join of all rows with one row by `is not distinct from` doubles what a query costs: ask for the value first. polars
sorts a million starts in a third of what a window takes. To plan the long views of a probe took a fifth of a second a
run, for no row: they are empty tables where nothing was probed.
"""

import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from llmdoctor.store import Store
from tests.bench.make_log import main as make_log

ROWS = 1_000_000
ROUNDS = 3
ROOT = Path(__file__).parents[2]

READ = """
import sys
import duckdb

path, columns = sys.argv[1], sys.argv[2]
db = duckdb.connect()
db.execute("set preserve_insertion_order = false")
source = f"read_json(?, format = 'newline_delimited', columns = {columns})"
db.execute(f"create table attempts as select * from {source}", [path])
print(db.execute("select count(*) from attempts").fetchone()[0])
"""


@dataclass(frozen=True)
class Cost:
    """CPU seconds of all threads and peak memory in MiB."""

    cpu_s: float
    peak_mib: float


def main() -> None:
    """Makes the log once, measures both in turn and prints the medians and their ratio."""
    path = _log()
    ours = [sys.executable, "-m", "llmdoctor", "analyze", "--json", os.devnull, "--quiet"]
    own, every = _columns(path)
    commands = {
        "read own": [sys.executable, "-c", READ, str(path), own],
        "read all": [sys.executable, "-c", READ, str(path), every],
        "analyze": [*ours, str(path)],
        "incident": [*ours, str(_log(incident=True))],
    }
    found: dict[str, list[Cost]] = {name: [] for name in commands}
    for number in range(1, ROUNDS + 1):
        for name, command in commands.items():
            found[name].append(cost := _measure(command))
            print(f"round {number}: {name:<9} {cost.cpu_s:6.2f} s CPU, {cost.peak_mib:6.0f} MiB", flush=True)
    cpu = {name: statistics.median(cost.cpu_s for cost in costs) for name, costs in found.items()}
    peak = {name: max(cost.peak_mib for cost in costs) for name, costs in found.items()}
    size = path.stat().st_size / 1e6
    print(f"{ROWS:,} lines, {size:.0f} MB, median of {ROUNDS} rounds:")
    for name in found:
        print(f"  {name:<9} {cpu[name]:6.2f} s CPU, {peak[name]:6.0f} MiB, {size / cpu[name]:6.0f} MB a CPU second")
    for name in ("read own", "read all"):
        times, more = cpu["analyze"] / cpu[name], peak["analyze"] / peak[name]
        print(f"  analyze / {name} = {times:.2f} in CPU, {more:.2f} in memory")


def _log(incident: bool = False) -> Path:
    path = ROOT / f".cache/bench-{ROWS}{'-incident' * incident}.jsonl"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        make_log(ROWS, path.with_suffix(".part"), incident)
        path.with_suffix(".part").rename(path)
    return path


def _columns(path: Path) -> tuple[str, str]:
    """The columns of the log, and all canonical ones, with their types, as the struct that `read_json` wants."""
    with Store() as store:
        store.create()
        types = store.columns("attempts")
        seen = store.run("select json_keys(json) from read_ndjson_objects(?) limit 10000", [str(path)])
    names = sorted({name for (keys,) in seen for name in keys})
    own, every = (", ".join(f"'{name}': '{types[name]}'" for name in some) for some in (names, types))
    return f"{{{own}}}", f"{{{every}}}"


def _measure(command: list[str]) -> Cost:
    """Runs a command to its end; the kernel says what it cost."""
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    output = process.stdout.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command[:4])} ended with {process.returncode}:\n{output[-2000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
