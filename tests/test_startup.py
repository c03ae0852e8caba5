"""`--help` loads none of the heavy libraries: each is imported where it is used."""

import subprocess
import sys

HEAVY = ("duckdb", "polars", "httpx", "httpcore", "jinja2", "markdown_it", "numpy", "pyarrow")


def _loaded(*arguments: str) -> set[str]:
    command = [sys.executable, "-X", "importtime", "-m", "llmdoctor", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}


def test_help_loads_no_heavy_library() -> None:
    loaded = _loaded("--help")
    assert "click" in loaded
    assert sorted(loaded.intersection(HEAVY)) == []


def test_version_loads_no_heavy_library() -> None:
    assert sorted(_loaded("--version").intersection(HEAVY)) == []


def test_the_help_of_a_command_loads_no_heavy_library() -> None:
    assert sorted(_loaded("analyze", "--help").intersection(HEAVY)) == []
