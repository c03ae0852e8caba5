"""Records every scenario of sample_logs anew with real components and lets `llmdoctor analyze` judge the fresh logs.

Run by `make test-real` after tests/real/install.sh; a missing component fails the test.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
REAL_PYTHON = ROOT / ".venv-real" / "bin" / "python"
pytestmark = pytest.mark.live

SAMPLES = sorted(path.parent.name for path in (ROOT / "sample_logs").glob("*/expect.toml"))
RECORD_WITHIN_S, ANALYZE_WITHIN_S = 600, 240


@dataclass(frozen=True)
class Case:
    """A fresh recording: its folder, what must be found in it, and the report on it."""

    folder: Path
    expected: dict[str, object]
    report: dict[str, list[dict[str, object]]]
    verdict: str


def run(command: list[str], within_s: float) -> str:
    """Run to the end and return the output; fails the test on another exit code than 0, ends it kindly when late."""
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            output, _ = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            process.terminate()  # the recorder then kills its parts
            output, _ = process.communicate(timeout=30)
        assert process.returncode == 0, f"{' '.join(command)} ended with {process.returncode}:\n{output[-3000:]}"
    return output


def record(name: str, folder: Path) -> None:
    """Record one scenario; a second time where a component died under it (the model server has, rarely), which the
    recorder tells from its exit code. What was recorded is never chosen by how it is judged."""
    command = [str(REAL_PYTHON), "-m", "tests.real.record", name, str(folder)]
    try:
        run(command, RECORD_WITHIN_S)
    except AssertionError as error:
        print(f"recorded again: {error}")
        shutil.rmtree(folder, ignore_errors=True)
        run(command, RECORD_WITHIN_S)


@pytest.fixture(scope="module", params=SAMPLES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Record one scenario and analyze it."""
    name, top = str(request.param), tmp_path_factory.mktemp("real")
    folder, report = top / name, top / "report.json"
    record(name, folder)
    expected = tomllib.loads((folder / "expect.toml").read_text())
    run([sys.executable, "-m", "llmdoctor", "analyze", str(folder), "--json", str(report)], ANALYZE_WITHIN_S)
    found = json.loads(report.read_text())
    return Case(folder, expected, found, found["verdict"]["level"])


def test_real_components_are_installed() -> None:
    assert REAL_PYTHON.exists(), "run tests/real/install.sh first"
    assert SAMPLES, "sample_logs is empty"


def test_every_attempt_is_read(case: Case) -> None:
    attempts = case.expected["files"]
    assert isinstance(attempts, dict)
    read = {Path(str(one["path"])).name: one for one in case.report["inputs"]}
    for name, count in attempts.items():
        assert read[name]["rejected"] == 0, read[name]
        assert read[name]["rows"] == count + other_rows(case.folder / name), read[name]


def other_rows(path: Path) -> int:
    """Lines of a native log that are rows of other tables than attempts."""
    return 0 if path.suffix == ".gz" else sum('"table":' in line for line in path.read_text().splitlines())


def test_the_true_cause_comes_first(case: Case) -> None:
    causes = [(str(one["id"]), one["confidence"]) for one in case.report["causes"]]
    if "cause" in case.expected:
        assert causes, f"no cause found: {present(case)}"
        assert causes[0][0] == case.expected["cause"], causes
    else:
        assert case.verdict != "unhealthy"
        assert causes == []


def test_the_symptoms_are_present(case: Case) -> None:
    wanted = case.expected["symptoms"]
    assert isinstance(wanted, list)
    assert set(wanted) <= present(case)


def present(case: Case) -> set[str]:
    """Ids of the symptoms that the report calls present."""
    return {str(one["id"]) for one in case.report["symptoms"] if one["state"] == "present"}
