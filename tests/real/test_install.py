"""The wheel, installed from scratch into an environment of its own, works away from the checkout."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _run(command: Sequence[object], cwd: Path) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `llmdoctor` of a fresh environment that has nothing but the wheel and what it asks for."""
    folder = tmp_path_factory.mktemp("installed")
    _run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT], folder)
    _run([sys.executable, "-m", "venv", folder / "venv"], folder)
    [wheel] = folder.glob("*.whl")
    pip = [folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, wheel], folder)
    return folder / "venv/bin/llmdoctor"


def test_it_shows_its_version(program: Path, tmp_path: Path) -> None:
    assert _run([program, "--version"], tmp_path).strip()


def test_its_rules_came_along_and_are_clean(program: Path, tmp_path: Path) -> None:
    assert "pages, no faults" in _run([program, "rules", "lint"], tmp_path)


def test_it_finds_what_is_wrong_in_a_sample(program: Path, tmp_path: Path) -> None:
    command = [program, "analyze", ROOT / "sample_logs/queueing", "-o", "report.html", "--json", "report.json"]
    _run(command, tmp_path)
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["schema"] == "llmdoctor.report/1"
    assert report["causes"][0]["id"] == "queueing"
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")
