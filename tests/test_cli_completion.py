"""What a shell completes, as the shells ask for it."""

import os
import subprocess
import sys

import pytest


def completed(*words: str) -> list[str]:
    """What bash is told for the last of these words."""
    asked = {"COMP_WORDS": " ".join(("llmdoctor", *words)), "COMP_CWORD": str(len(words))}
    environment = {**os.environ, **asked, "_LLMDOCTOR_COMPLETE": "bash_complete"}
    command = [sys.executable, "-m", "llmdoctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    "words",
    [
        ("analyze", "lo"),
        ("analyze", "a.jsonl", "lo"),
        ("analyze", "-o", "lo"),
        ("analyze", "--baseline", "lo"),
        ("analyze", "--rules", "lo"),
        ("compare", "lo"),
        ("compare", "before", "lo"),
        ("explain", "queueing", "lo"),
        ("show", "id", "lo"),
        ("probe", "http://localhost", "--body", "lo"),
        ("formats", "detect", "lo"),
    ],
)
def test_a_path_is_completed_as_a_path(words: tuple[str, ...]) -> None:
    assert completed(*words) == ["file,lo"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("comp",), ["plain,compare"]),
        (("analyze", "--base"), ["plain,--baseline"]),
        (("analyze", "--ignore", "queuei"), ["plain,queueing"]),
        (("explain", "bad_inst"), ["plain,bad_instance"]),
        (("rules", "show", "queuei"), ["plain,queueing"]),
        (("analyze", "--format", "nginx_j"), ["plain,nginx_json"]),
        (("formats", "show", "nginx_j"), ["plain,nginx_json"]),
        (("analyze", "--profile", "ch"), ["plain,chat"]),
        (("probe", "--protocol", "ollama"), ["plain,ollama_chat"]),
        (("probe", "--protocol", "nginx"), []),
        (("analyze", "--map", "ttft_ms=pa"), []),
        (("probe", "http"), []),
    ],
)
def test_a_name_is_completed_by_what_bears_such_names(words: tuple[str, ...], told: list[str]) -> None:
    assert completed(*words) == told
