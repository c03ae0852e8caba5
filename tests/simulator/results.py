"""One simulated log and what the analyzer said about it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from llmdoctor import rulebook
from llmdoctor.diagnose import Diagnosis, diagnose
from llmdoctor.errors import LlmdoctorError
from llmdoctor.ingest import read
from llmdoctor.rulebook import Rulebook
from llmdoctor.store import Store
from tests.simulator.cases import Case, NoImpactError, make
from tests.simulator.log import logs, save_rows
from tests.simulator.perturb import CHANGES, Files

LOUD = frozenset({"high", "critical"})


@dataclass(frozen=True)
class Listed:
    """One cause of a report, in rank order."""

    id: str
    subject: str
    confidence: float
    score: float


@dataclass(frozen=True)
class Result:
    """``causes`` is the truth (none: healthy, two: a pair), ``alarms`` the present findings of high severity or more.

    hidden: the fields of this profile cannot tell the cause. change: what was done to the log before it was read.
    """

    scenario: str
    seed: int
    fields: str
    causes: tuple[str, ...]
    accepted: tuple[str, ...] = ()
    true_too: tuple[str, ...] = ()
    hidden: bool = False
    subject: str | None = None
    listed: tuple[Listed, ...] = ()
    alarms: tuple[str, ...] = ()
    verdict: str = ""
    failure: str | None = None
    change: str = ""

    @property
    def first(self) -> str | None:
        return self.listed[0].id if self.listed else None

    def rank(self) -> int | None:
        """From 1, of the first right cause."""
        right = {*self.causes, *self.accepted}
        return next((place for place, one in enumerate(self.listed, 1) if one.id in right), None)

    def all_in(self, places: int) -> bool:
        """Whether every injected cause stands in the first places."""
        return set(self.causes) <= {one.id for one in self.listed[:places]}

    def true(self, cause: str) -> bool:
        """Whether a cause that was named is really at work."""
        return cause in {*self.causes, *self.accepted, *self.true_too}

    @property
    def alarmed(self) -> bool:
        return bool(self.listed or self.alarms)


@dataclass(frozen=True)
class Task:
    """One case to be judged in some profiles, and in one of them changed in some ways as well."""

    scenario: str
    seed: int
    rows: int
    fields: tuple[str, ...]
    changed: str = ""
    changes: tuple[str, ...] = ()


@cache
def book() -> Rulebook:
    """The shipped rules."""
    return rulebook.load()


def judged(case: Case, fields: str, change: str) -> Result:
    """Writes the log of a case and lets the analyzer read it."""
    scenario = case.scenario
    files: Files = logs(case, fields)
    if change:
        files = CHANGES[change](files, case.world.seed)
    found, failure = None, None
    with tempfile.TemporaryDirectory(prefix="llmdoctor-score-") as folder:
        save_rows(files, Path(folder))
        try:
            found = analyzed(Path(folder))
        except LlmdoctorError as error:
            failure = str(error)
    return Result(
        scenario.name, case.world.seed, fields, case.causes, scenario.accepted, scenario.true_too,
        fields in scenario.hidden, case.subject, *(_said(found) if found else ((), (), "")), failure, change,
    )  # fmt: skip


def analyzed(folder: Path) -> Diagnosis:
    """The diagnosis of a folder of logs."""
    with Store() as store:
        store.create()
        read(store, [str(folder)])
        return diagnose(store, book())


def _said(found: Diagnosis) -> tuple[tuple[Listed, ...], tuple[str, ...], str]:
    listed = tuple(
        Listed(one.id, one.subject, one.confidence, one.confidence if one.score is None else one.score)
        for one in found.causes
    )
    return listed, tuple(sorted({one.id for one in found.present if one.severity in LOUD})), found.verdict.level


def run(task: Task) -> list[Result]:
    """The results of one task; nothing for a seed that gives no case."""
    try:
        case = make(task.scenario, task.seed, task.rows)
    except NoImpactError:
        return []
    views = [*((fields, "") for fields in task.fields), *((task.changed, change) for change in task.changes)]
    return [judged(case, fields, change) for fields, change in views]


def run_all(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[Task, list[Result]]]:
    """Every task with its results, in order. Processes are spawned: polars' threads do not survive a fork."""
    if jobs <= 1:
        yield from ((task, run(task)) for task in tasks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from zip(tasks, pool.map(run, tasks), strict=True)


def as_line(result: Result) -> str:
    return json.dumps(asdict(result))


def from_line(line: str) -> Result:
    """What ``as_line`` wrote."""
    told: dict[str, Any] = json.loads(line)
    lists = ("causes", "accepted", "true_too", "alarms")
    listed = tuple(Listed(**one) for one in told["listed"])
    return Result(**told | {name: tuple(told[name]) for name in lists} | {"listed": listed})
