"""The wheel holds everything that the program reads at run time, and nothing else. Installing it is for test-real."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of the files in a wheel built from this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    [wheel] = folder.glob("*.whl")
    return set(zipfile.ZipFile(wheel).namelist())


def _sources(folder: str, pattern: str) -> set[str]:
    return {str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob(pattern)}


@pytest.mark.parametrize("pattern", ["*.py", "*.sql", "*.md", "*.j2", "*.css"])
def test_the_wheel_holds_every_file_of_the_package(names: set[str], pattern: str) -> None:
    assert sorted(_sources("llmdoctor", pattern) - names) == []
    assert _sources("llmdoctor", pattern)


def test_the_wheel_holds_the_rules(names: set[str]) -> None:
    wanted = {f"llmdoctor/{path}" for path in _sources("rules", "*.md") | _sources("rules", "*.toml")}
    assert sorted(wanted - names) == []
    assert "llmdoctor/rules/symptoms/rate_limited.md" in names


def test_the_wheel_holds_nothing_else(names: set[str]) -> None:
    assert sorted(name for name in names if not name.startswith(("llmdoctor/", "llmdoctor-"))) == []
    assert [name for name in names if "__pycache__" in name or name.endswith(".pyc")] == []


def test_the_wheel_has_the_command(names: set[str]) -> None:
    assert any(name.endswith("/entry_points.txt") for name in names)
