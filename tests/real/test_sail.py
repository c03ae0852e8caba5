"""The text of every rule gives the same rows on DuckDB and on Sail, a Spark Connect engine.

The same data on both: simulated incidents, and the examples of the page itself. Tables travel as Parquet written by
DuckDB; the shared views are made from one text on both. A missing engine fails: an untested claim is none.
"""

import json
import math
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from llmdoctor import ingest, rulebook, stats
from llmdoctor.diagnose.examples import fill_example
from llmdoctor.errors import StoreError
from llmdoctor.lint import queries
from llmdoctor.rulebook import CauseRule, SymptomRule
from llmdoctor.store import Store
from tests.simulator.cases import make
from tests.simulator.log import write

ROOT = Path(__file__).parents[2]
PYTHON = Path(os.environ.get("LLMDOCTOR_SAIL_PYTHON", ROOT / ".venv-real/bin/python"))
INCIDENTS = (
    ("queueing", "full"),
    ("nested_retries", "two_sided"),
    ("bad_instance", "client"),
)
RELATIVE, ABSOLUTE = 1e-6, 1e-6  # Spark rounds the average of decimals to seven digits

BOOK = rulebook.load()
RULES: dict[str, SymptomRule | CauseRule] = {rule.id: rule for rule in BOOK.symptoms}
RULES |= {rule.id: rule for rule in BOOK.causes}


@dataclass(frozen=True)
class Asked:
    """One query on one data set, and what DuckDB answered."""

    name: str
    rule: str
    vantage: str
    sql: str
    values: Mapping[str, Any]
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    refused: str | None = None


def _queries(rule: SymptomRule | CauseRule) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Label, text and values of every query of a rule."""
    if isinstance(rule, SymptomRule):
        yield "seen when", rule.query.text, {name: limit.value for name, limit in rule.limits.items()}
        return
    values = {"dimension": rule.dimension, "kind": "any"} if rule.dimension else {}
    for piece in rule.evidence:
        yield piece.sentence, piece.query.text, values
    yield "affected", rule.affected.text, values


def _ask(store: Store, where: str, rules: Sequence[str]) -> Iterator[Asked]:
    stats.prepare(store)
    vantages = [vantage for (vantage,) in store.run("select distinct vantage from attempts order by 1")]
    for vantage in vantages or ["client"]:  # a log of tasks alone has none
        stats.set_front(store, vantage)
        for rule_id in rules:
            for label, sql, values in _queries(RULES[rule_id]):
                used = {name: value for name, value in values.items() if f":{name}" in sql}
                name = f"{rule_id}, {label}, on {where} at {vantage}"
                try:
                    rows = store.ask(sql, used)
                except StoreError as error:
                    yield Asked(name, rule_id, vantage, sql, used, (), (), str(error))
                    continue
                columns = tuple(rows[0]) if rows else ()
                yield Asked(name, rule_id, vantage, sql, used, columns, tuple(tuple(row.values()) for row in rows))


def _export(store: Store, folder: Path) -> None:
    folder.mkdir(parents=True)
    for table in queries.TABLES:
        kinds = store.columns(table)
        if table not in ("front", "front_expected") and kinds:
            # An enum would come to Spark as bytes.
            columns = (
                f'"{name}"' + "::varchar" * kind.startswith("ENUM") + f' as "{name}"' for name, kind in kinds.items()
            )
            store.run(f"copy (select {', '.join(columns)} from {table}) to '{folder / table}.parquet' (format parquet)")


def _data_sets(tmp: Path) -> Iterator[tuple[Path, list[Asked]]]:
    for number, (scenario, fields) in enumerate(INCIDENTS):
        write(make(scenario, 3, 600), fields, tmp / scenario)
        with Store() as store:
            store.create()
            ingest.read(store, [str(tmp / scenario)])
            asked = [one for one in _ask(store, f"{scenario} ({fields})", list(RULES)) if one.rows or one.refused]
            _export(store, tmp / f"data-{number}")
        yield tmp / f"data-{number}", asked
    for rule_id, rule in RULES.items():
        for number, sample in enumerate(sample for sample in rule.samples if sample.found):
            with Store() as store:
                fill_example(store, sample)
                asked = list(_ask(store, f"its example in line {sample.line}", [rule_id]))
                _export(store, tmp / f"data-{rule_id}-{number}")
            yield tmp / f"data-{rule_id}-{number}", asked


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Asked, dict[str, Any]]]:
    """Every query with the answers of both engines."""
    if not PYTHON.exists():
        pytest.fail(f"{PYTHON} does not exist: run tests/real/install.sh")
    tmp = tmp_path_factory.mktemp("sail")
    views = [f"create or replace temp view {name} as {text}" for name, text in queries.views()]
    job, everything = [], []
    for folder, asked in _data_sets(tmp):
        everything += asked
        entries = [{"name": a.name, "vantage": a.vantage, "sql": a.sql, "values": dict(a.values)} for a in asked]
        job.append({"folder": str(folder), "views": views, "queries": entries})
    (tmp / "job.json").write_text(json.dumps(job), encoding="utf-8")
    command = [str(PYTHON), str(Path(__file__).with_name("sail_run.py")), str(tmp / "job.json"), str(tmp / "out.json")]
    done = subprocess.run(command, env={**os.environ, "TZ": "UTC"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads((tmp / "out.json").read_text(encoding="utf-8"))
    return [(one, found[one.name]) for one in everything]


@pytest.mark.parametrize("page", sorted({rule.page.id for rule in RULES.values()}))
def test_sail_gives_the_rows_that_duckdb_gives(page: str, answers: list[tuple[Asked, dict[str, Any]]]) -> None:
    own = [(asked, answer) for asked, answer in answers if RULES[asked.rule].page.id == page]
    found = [f"{asked.name}: {text}" for asked, answer in own if (text := _difference(asked, answer))]
    if found:
        pytest.fail("\n".join(found), pytrace=False)
    assert any(asked.rows for asked, _ in own), "no query had a row to compare"


def _difference(asked: Asked, answer: dict[str, Any]) -> str | None:
    if asked.refused:
        return f"DuckDB: {asked.refused}"
    if "error" in answer:
        return f"Sail: {answer['error']}"
    if len(asked.rows) != len(answer["rows"]):
        return f"DuckDB has {len(asked.rows)} rows, Sail {len(answer['rows'])}"
    if asked.rows and list(asked.columns) != list(answer["columns"]):
        return f"DuckDB has columns {asked.columns}, Sail {answer['columns']}"
    ours = sorted(([_plain(value) for value in row] for row in asked.rows), key=_order)
    theirs = sorted(([_plain(value) for value in row] for row in answer["rows"]), key=_order)
    for mine, other in zip(ours, theirs, strict=True):
        for column, a, b in zip(asked.columns, mine, other, strict=True):
            if not _same(a, b):
                return f"{column}: DuckDB {a!r}, Sail {b!r} in {mine}"
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    return value.isoformat() if isinstance(value, datetime) else value


def _order(row: Sequence[Any]) -> str:
    return repr([f"{value:.5g}" if isinstance(value, float) else str(value) for value in row])


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) or (math.isnan(a) and math.isnan(b))
    return bool(a == b) and type(a) is type(b)
