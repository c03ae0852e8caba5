"""Stamps of senders: whose clock they are on, and what is made of them."""

import json

from llmdoctor.probe.pieces import Stamp
from llmdoctor.probe.protocols import load
from llmdoctor.probe.reading import Reading
from llmdoctor.probe.stamps import sent_ms, stamp_of


def test_the_canary_and_ollama_stamp_their_events() -> None:
    assert stamp_of({"canary": {"sent_ms": 12.5, "clock_ns": 77}}) == Stamp(12.5, 77)
    early = stamp_of({"created_at": "2026-03-01T10:00:00.250123Z"})
    later = stamp_of({"created_at": "2026-03-01T11:00:00.300Z"})
    there = stamp_of({"created_at": "2026-03-01T12:00:00.300+01:00"})
    assert early is not None
    assert later is not None
    assert later == there
    assert round(later.ms - early.ms, 3) == 3_600_049.877


def test_whole_seconds_and_other_things_are_no_stamps() -> None:
    documents: list[object] = [
        {"created": 1700000000},
        {"created_at": "2026-03-01T10:00:00Z"},
        {"created_at": 5},
        [],
        "x",
    ]
    for document in documents:
        assert stamp_of(document) is None
    assert stamp_of({"created_at": "2026-13-45T10:00:00.123Z"}) is None
    assert stamp_of({"canary": {"sent_ms": True}}) is None


def test_on_one_machine_the_moment_of_sending_is_exact() -> None:
    stamps = [(12.0, Stamp(1.0, 1_011_000_000)), (30.0, None), (25.0, Stamp(9.0, 1_020_000_000))]
    assert sent_ms(stamps, 1_000_000_000) == [11.0, None, 20.0]


def test_elsewhere_the_quickest_piece_took_no_time() -> None:
    stamps = [(112.0, Stamp(5_000.0)), (130.0, Stamp(5_020.0)), (171.0, Stamp(5_030.0))]
    assert sent_ms(stamps, 1_000_000_000) == [110.0, 130.0, 140.0]
    other_origin = [(at, Stamp(stamp.ms, 1_000 + number)) for number, (at, stamp) in enumerate(stamps)]
    assert sent_ms(other_origin, 1_000_000_000) == [110.0, 130.0, 140.0]


def test_a_reading_keeps_the_stamp_of_each_event() -> None:
    reading = Reading(load("ollama_chat"))
    line = {"created_at": "2026-03-01T10:00:00.250Z", "message": {"role": "assistant", "content": "a"}, "done": False}
    placed = reading.feed(json.dumps(line).encode() + b"\n{}\n")
    assert [one.stamp is not None for one in placed] == [True] * (len(placed) - 1) + [False]
