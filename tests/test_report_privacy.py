"""What leaves the machine: no secret ever, and no id, tenant or host with `--hash-ids`."""

import dataclasses

import pytest

from llmdoctor.diagnose.values import Evidence, to_json
from llmdoctor.redact import snippet
from llmdoctor.report.privacy import hidden
from tests.report_samples import cause, hostile, ordinary, symptom


def test_masks_secrets_in_every_string() -> None:
    key = "sk-proj-abcdefghijklmnop1234567890"
    leaky = dataclasses.replace(
        ordinary(),
        notes=(f"found {key}",),
        symptoms=(symptom(subject=f"tenant={key}", reason=f"Bearer {key}"),),
        settings={"where": f"caller = '{key}'"},
        causes=(cause(evidence=(Evidence(f"{key} is slow", "for", {key: key}),)),),
    )
    assert key not in to_json(hidden(leaky))


def test_hashes_names_wherever_they_are_quoted() -> None:
    one = symptom(subject="tenant=acme-corp")
    told = cause(
        subject="tenant=acme-corp",
        evidence=(
            Evidence("acme-corp sends 90 % of 12 requests", "for", {"tenant": "acme-corp", "instance": "gpu-7"}),
        ),
        verify="look at gpu-7 again",
    )
    safe = hidden(dataclasses.replace(ordinary(), symptoms=(one,), causes=(told,), notes=("gpu-7: 12",)), hash_ids=True)
    text = to_json(safe)
    for name in ("acme-corp", "gpu-7", "req-7f3a9c21", "req-slow-1", '{\\"id\\": 4}'):
        assert name not in text
    assert safe.symptoms[0].subject.startswith("tenant=h-")
    assert safe.causes[0].subject == safe.symptoms[0].subject
    assert safe.causes[0].evidence[0].text.endswith("sends 90 % of 12 requests")


def test_changes_nothing_else() -> None:
    assert hidden(ordinary()) == ordinary()
    once = hidden(hostile())
    assert hidden(once) == once


def test_leaves_no_terminal_sequence_or_lone_surrogate() -> None:
    text = to_json(hidden(hostile()))
    assert "\x1b" not in text
    assert "\\u001b" not in text
    text.encode()


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-01 INFO prompt=HUSH and more HUSH",
        "INFO request {'messages': [{'role': 'user', 'content': 'HUSH'}]}",
        '{"level": "info", "msg": "prompt: HUSH"}',
    ],
)
def test_snippets_of_lines_that_are_no_json_show_no_prompt(line: str) -> None:
    assert "HUSH" not in snippet(line)
