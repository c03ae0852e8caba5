"""One request as a screen: bars on one time axis, then each attempt in words, then what does not fit together."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from llmdoctor.diagnose.disagreements import Disagreement
from llmdoctor.diagnose.request import Request, Try
from llmdoctor.redact import mask
from llmdoctor.report import figures
from llmdoctor.report.columns import fit, pad, width
from llmdoctor.report.figures import clean, duration, plural
from llmdoctor.report.screen import WIDTH, Screen, is_plain

SCHEMA = "llmdoctor.request/1"
SHOWN = 40
LISTED = 12

_OUTCOME_STYLE = {"completed": "good", "failed": "bad", "timeout": "bad", "unknown": "dim"}
# Phase -> what a bar is drawn with, and what it is called below the bars.
_PHASES = {
    "connect": ("╌", "connect"),
    "prepare": ("┄", "prepare"),
    "queue": ("▒", "queue"),
    "prefill": ("▓", "prefill"),
    "wait": ("░", "wait for the answer"),
    "answer": ("█", "answer"),
    "whole": ("─", "nothing known within"),
}
_BAD_END = ("x", "ended badly")


def to_json(request: Request) -> str:
    """The published form (`llmdoctor.request/1`): the same keys as `Request`, a newline at the end."""
    plain = {"schema": SCHEMA, **_cleaned(dataclasses.asdict(request))}
    return json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _cleaned(value: Any) -> Any:
    """The same with terminal sequences, invisible characters and secrets taken out of every text."""
    if isinstance(value, str):
        return mask(clean(value))
    if isinstance(value, dict):
        return {key: _cleaned(inner) for key, inner in value.items()}
    return [_cleaned(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def render(request: Request, *, colour: bool = False, encoding: str = "utf-8") -> str:
    """The screen, newline at the end; only ASCII where `encoding` is no Unicode one."""
    screen = Screen(colour, is_plain(encoding))
    shown = _chosen(request.tries)
    _head(screen, request)
    _bars(screen, request, shown)
    for one in shown:
        _words(screen, one, request.tries)
    screen.more(len(request.tries) - len(shown) + request.left_out, " attempts of it", "")
    _lists(screen, request)
    _disagreements(screen, request)
    return "\n".join(screen.lines) + "\n"


def _chosen(tries: Sequence[Try]) -> Sequence[Try]:
    """All, or as many around the first that was asked for as fit."""
    asked = next((one.number for one in tries if one.asked_for), 1)
    first = max(0, min(asked - 1 - SHOWN // 2, len(tries) - SHOWN))
    return tries[first : first + SHOWN]


def _head(screen: Screen, request: Request) -> None:
    count = plural(len(request.tries) + request.left_out, "attempt")
    screen.flow(f"{request.asked} ({figures.listed(request.found_in, 5)})", "Request ", "  ", "strong", 7)
    where = f"at {figures.listed(request.vantages, 7)}"
    ends = [one.start_ms + (one.total_ms or 0.0) for one in request.tries if one.start_ms is not None]
    took = f", {duration(max(ends))} from the first start to the last end" if ends else ""
    screen.flow(f"{count} {where}, from {figures.instant(request.started_at)} UTC{took}.")


# --- bars


def _bars(screen: Screen, request: Request, shown: Sequence[Try]) -> None:
    timed = [one for one in shown if one.start_ms is not None]
    stages = [one for one in request.stages if one.start_ms is not None and one.duration_ms is not None][:LISTED]
    spans = [(one.start_ms or 0.0, one.total_ms or 0.0) for one in timed]
    spans += [(one.start_ms or 0.0, one.duration_ms or 0.0) for one in stages]
    if not spans:
        return
    digits = len(str(timed[-1].number)) if timed else 0
    lead = " " * (digits + 1)
    names = [_name(one, digits) for one in timed] + [lead + screen.say(one.name) for one in stages]
    label = min(max(width(name) for name in names), 20)
    room = WIDTH - label - 14
    start, end = min(at for at, _ in spans), max(at + took for at, took in spans)
    scale = (end - start or 1.0) / room
    screen.add()
    screen.add(" " * (label + 3) + _axis(start, end, room), "dim")
    marks = [_bar(one, start, scale, room) for one in timed] + [
        _drawn([("─", 0.0, took)], at - start, took, scale, room) for at, took in spans[len(timed) :]
    ]
    totals = [one.total_ms for one in timed] + [one.duration_ms for one in stages]
    for name, mark, took in zip(names, marks, totals, strict=True):
        shown_name = pad(fit(name, label, screen.ellipsis), label, "<")
        right = pad(duration(took) if took is not None else "", 8, ">")
        screen.add(f"  {shown_name} {pad(mark, room, '<')} {right}")
    used = "".join(marks)
    legend = [f"{glyph} {word}" for glyph, word in (*_PHASES.values(), _BAD_END) if glyph in used]
    screen.add("  " + "   ".join(legend), "dim")


def _name(one: Try, digits: int) -> str:
    return f"{one.number:>{digits}} {one.vantage}" + (f" #{one.attempt}" if one.attempt is not None else "")


def _axis(start: float, end: float, room: int) -> str:
    """Start, middle and end of the axis, in their places."""
    left, right = _offset(start), _offset(end)
    middle = _offset((start + end) / 2)
    gap = room - width(left) - width(middle) - width(right)
    if gap < 4:
        return pad(left, room - width(right), "<") + right
    before = max(room // 2 - width(left) - width(middle) // 2, 1)
    return left + " " * before + middle + " " * max(gap - before, 1) + right


def _offset(ms: float) -> str:
    return "0" if ms == 0 else ("+" if ms > 0 else "") + duration(ms)


def _bar(one: Try, start: float, scale: float, room: int) -> str:
    total = one.total_ms or 0.0
    phases = [(_PHASES[phase.name][0], phase.start_ms, phase.duration_ms) for phase in one.phases]
    bar = _drawn(phases or [("─", 0.0, total)], (one.start_ms or 0.0) - start, total, scale, room)
    return bar if one.outcome in ("completed", "unknown") else bar[:-1] + _BAD_END[0]


def _drawn(phases: Sequence[tuple[str, float, float]], at: float, total: float, scale: float, room: int) -> str:
    """Blanks up to the start, then one cell for each stretch of the axis, of the phase in its middle; at least one."""
    first = min(int(at / scale), room - 1)
    cells = min(max(round((at + total) / scale) - first, 1), room - first)
    drawn = []
    for cell in range(cells):
        middle = min(max((first + cell + 0.5) * scale - at, 0.0), total)
        drawn.append(next((glyph for glyph, begin, took in phases if middle <= begin + took), phases[-1][0]))
    return " " * first + "".join(drawn)


# --- words


def _words(screen: Screen, one: Try, tries: Sequence[Try]) -> None:
    number = f"{one.number}. "
    attempt = f", attempt {one.attempt}" if one.attempt is not None else ""
    place = f"{one.file}:{one.line}" if one.line else one.file
    screen.add()
    head = f"{screen.say(one.vantage)}{attempt}: {screen.say(_ending(one))}"
    screen.flow(head, number, "   ", _OUTCOME_STYLE.get(one.outcome, "warn"))
    screen.flow(f"{place}{f', request_id {one.request_id}' if one.request_id else ''}", "   ", "     ")
    for sentence in (_times(one), _asked(one), _pieces(one), _waits(one, tries), _joined(one, tries)):
        if sentence:
            screen.flow(sentence, "   ", "     ")


def _ending(one: Try) -> str:
    """ "timeout while waiting for the first token, HTTP 504, error timeout of the proxy"."""
    phases = {"connect": "while connecting", "first_token": "before the first token", "idle": "in mid-stream"}
    words = [f"{one.outcome} {phases.get(one.timeout_phase or '', '')}".strip()]
    if one.http_status is not None:
        words.append(f"HTTP {one.http_status}")
    if one.error_type:
        words.append(f"error {one.error_type}" + (f" (from the {one.error_origin})" if one.error_origin else ""))
    return ", ".join(words)


def _times(one: Try) -> str:
    known = (("headers", one.header_ms), ("first token", one.ttft_ms), ("total", one.total_ms))
    words = [f"starts at {_offset(one.start_ms)}" if one.start_ms is not None else "start not known"]
    words += [f"{name} {duration(value)}" for name, value in known if value is not None]
    inside = [phase for phase in one.phases if phase.name in ("connect", "prepare", "queue", "prefill")]
    words += [f"{phase.name} {duration(phase.duration_ms)}" for phase in inside]
    return ", ".join(words)


def _asked(one: Try) -> str:
    words = [one.model or "", {True: "streamed", False: "not streamed", None: ""}[one.stream]]
    words.append(f"at {one.instance}" if one.instance else "")
    cached = f" ({one.cached_tokens:,} cached)" if one.cached_tokens is not None else ""
    thought = f" ({one.reasoning_tokens:,} reasoning)" if one.reasoning_tokens is not None else ""
    words.append(f"{one.input_tokens:,} tokens in{cached}" if one.input_tokens is not None else "")
    words.append(f"{one.output_tokens:,} tokens out{thought}" if one.output_tokens is not None else "")
    words.append(f"{one.upstream_attempts} upstream tries" if (one.upstream_attempts or 0) > 1 else "")
    return ", ".join(word for word in words if word)


def _pieces(one: Try) -> str:
    pieces = one.pieces
    if pieces is None:
        return ""
    gap = f", longest gap {duration(pieces.max_gap_ms)}" if pieces.max_gap_ms is not None else ""
    span = f"{duration(pieces.first_ms)} to {duration(pieces.last_ms)}"
    return f"{plural(pieces.count, 'timed piece')}, {pieces.with_content:,} with content, from {span}{gap}"


def _waits(one: Try, tries: Sequence[Try]) -> str:
    if one.wait_ms is None:
        return ""
    before = [other.number for other in tries if other.vantage == one.vantage and other.number < one.number]
    if one.wait_ms < 0:
        return (
            f"starts while {_numbers(before[-1:])} is still running, {duration(-one.wait_ms)} before the last end there"
        )
    return f"starts {duration(one.wait_ms)} after the end of the try before ({_numbers(before[-1:])})"


def _joined(one: Try, tries: Sequence[Try]) -> str:
    how = {"id": "by id", "trace": "by trace and nearest start", "time": "by time alone: a guess"}
    if one.joins:
        words = [
            f"{_numbers([join.outer])} ({tries[join.outer - 1].vantage}), {how[join.joined_by]}" for join in one.joins
        ]
        return "serves " + "; ".join(words)
    served = any(join.outer == one.number for other in tries for join in other.joins)
    alone = len({other.vantage for other in tries}) == 1
    if served or alone or one.asked_for:
        return ""
    return f"is joined to no attempt of another vantage; it belongs here by its {one.link}"


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(f"no. {number}" for number in numbers)


# --- the rest


def _lists(screen: Screen, request: Request) -> None:
    rows: list[tuple[str, Sequence[str]]] = []
    rows.append(("Stages", [
        f"{duration(stage.duration_ms)} {stage.name}"
        + (f", in {stage.parent}" if stage.parent else "")
        + (f", of {_numbers([stage.of])}" if stage.of else "")
        + (f", starts at {_offset(stage.start_ms)}" if stage.start_ms is not None else "")
        for stage in request.stages
    ]))  # fmt: skip
    rows.append(("Task", [
        f"{_offset(event.at_ms) if event.at_ms is not None else '?'} {event.state}"
        + (f" ({event.worker})" if event.worker else "")
        for event in request.events
    ]))  # fmt: skip
    for title, lines in rows:
        if lines:
            screen.add()
            screen.add(title, "strong")
        for line in lines[:LISTED]:
            screen.flow(figures.cut(line, 200), "  ", "    ")
        screen.more(len(lines) - LISTED, "")


def _disagreements(screen: Screen, request: Request) -> None:
    if not request.disagreements:
        return
    screen.add()
    screen.add("What does not fit together", "strong")
    for one in request.disagreements[:LISTED]:
        screen.flow(_sentence(one, request.tries), "  ! ", "    ", "warn", 3)
    screen.more(len(request.disagreements) - LISTED, "")


def _sentence(one: Disagreement, tries: Sequence[Try]) -> str:
    outer = f"{tries[one.outer - 1].vantage} (no. {one.outer})"
    inner = f"{tries[one.inner - 1].vantage} (no. {one.inner})" if one.inner != one.outer else "the server behind it"
    if one.kind == "clock":
        side = "before" if (one.later_ms or 0) < 0 else "after the end of"
        return (
            f"{inner} starts {duration(abs(one.later_ms or 0))} {side} the attempt that it serves, {outer}:"
            " their clocks differ by at least that"
        )
    text = f"{one.kind}: {outer} says {one.outer_says}, {inner} says {one.inner_says}"
    if one.kind == "outcome" and one.later_ms is not None:
        text += f", {duration(abs(one.later_ms))} {'later' if one.later_ms >= 0 else 'earlier'}"
    return text
