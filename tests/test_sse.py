"""Event streams as the standard says, JSON lines and growing arrays: the same events wherever the bytes are cut."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmdoctor.probe.elements import ElementReader, LineReader
from llmdoctor.probe.sse import BOM, Event, Reader

AnyReader = Reader | LineReader | ElementReader

STREAMS: dict[str, bytes] = {
    "line feeds": b"data: a\n\ndata: b\n\n",
    "CR LF": b"event: x\r\ndata: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n",
    "bare CR": b"data: a\rdata: b\r\rdata: c\r\r",
    "mixed line ends": b"data: a\r\ndata: b\n\rdata: c\r\r\n\ndata: d\n\n",
    "comments": b": ping\n\ndata: a\n: in between\ndata: b\n\n:\n",
    "characters of several bytes": "data: día 🙂 漢字\n\ndata: \u2028é\n\n".encode(),
    "a byte order mark": BOM + b"data: a\n\n" + BOM + b"data: b\n\n",
    "all fields": b"id: 7\nevent: e\nretry: 100\ndata: a\nfoo: bar\n\nretry: x\nid\ndata\n\n",
    "without a space": b"data:a\n\ndata:  two\n\n",
    "blank lines": b"\n\n\r\n\r\rdata: a\n\n\n\n",
    "no last blank line": b"data: a\n\ndata: b\n",
    "cut in a line": b"data: a\n\nevent: x\ndata: b",
    "not UTF-8": b"data: \xff\xfe\n\ndata: caf\xe9\n\n: \xc3\n",
    "a page": b"<html>\r\n<title>502 Bad Gateway</title>\r\n</html>\r\n",
    "nothing": b"",
}
LINES = b'{"a": "1\\n"}\n\r\n{"b": "\xc3\xa9"}\r\nnot json\n{"c": 3}'
ELEMENTS: dict[str, bytes] = {
    "an array": b'[{"a": "]}\\"{"}\n,\r\n{"b": [1, {"c": "\xc3\xa9\\\\"}]}]\n',
    "one document": b' {\n "a": {}\n}\n',
    "documents without an array": b'{"a":1}{"b":2}\n{"c":3}',
    "cut in an element": b'[{"a":1},{"b":"x',
    "cut between elements": b'[{"a":1},\n',
    "text between": b'{"a":1}\nHTTP/1.1 500 Oh\nno {"b":2}\n{"c":3}\nend',
    "an array in an array": b'[[1],[{"a":[]}]]',
}
ALL: list[tuple[Callable[[], AnyReader], bytes]] = [
    *((Reader, raw) for raw in STREAMS.values()),
    (LineReader, LINES),
    *((ElementReader, raw) for raw in ELEMENTS.values()),
]


def _read(make: Callable[[], AnyReader], *parts: bytes) -> list[Event]:
    reader = make()
    return [event for part in parts for event in reader.feed(part)] + reader.end()


def _events(raw: bytes) -> list[Event]:
    return _read(Reader, raw)


@pytest.mark.parametrize(("make", "raw"), ALL)
def test_a_cut_anywhere_changes_nothing(make: Callable[[], AnyReader], raw: bytes) -> None:
    whole = _read(make, raw)
    for cut in range(len(raw) + 1):
        assert _read(make, raw[:cut], raw[cut:]) == whole, cut
    assert _read(make, *(raw[at : at + 1] for at in range(len(raw)))) == whole


@given(
    st.lists(
        st.sampled_from(
            [
                b"data: a",
                b"data",
                b"data:",
                b"event: x",
                b": c",
                b"id: 1",
                b"foo",
                b"\r",
                b"\n",
                b"\r\n",
                BOM,
                b"\xc3",
                b"\xa9",
            ]
        ),
        max_size=30,
    ),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_several_cuts_of_any_stream_change_nothing(parts: list[bytes], cuts: list[int]) -> None:
    raw = b"".join(parts)
    places = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    pieces = [raw[start:stop] for start, stop in pairwise(places)]
    cut, whole = Reader(), Reader()
    assert [event for piece in pieces for event in cut.feed(piece)] + cut.end() == whole.feed(raw) + whole.end()
    assert (cut.line_ends, cut.spaceless, cut.bom) == (whole.line_ends, whole.spaceless, whole.bom)


@given(st.text(alphabet='{}[]",\\ a\n', max_size=40), st.integers(0, 40))
def test_any_text_of_brackets_can_be_cut(text: str, cut: int) -> None:
    raw = text.encode()
    assert _read(ElementReader, raw[:cut], raw[cut:]) == _read(ElementReader, raw)


@pytest.mark.parametrize(("make", "raw"), ALL)
def test_the_events_come_as_soon_as_the_byte_that_completes_them(make: Callable[[], AnyReader], raw: bytes) -> None:
    reader = make()
    for at in range(len(raw)):
        for event in reader.feed(raw[at : at + 1]):
            assert event.end == at + 1
            assert event.start < event.end


def test_data_lines_are_joined_and_one_space_is_taken_off() -> None:
    assert [event.data for event in _events(b"data: a\ndata:b\ndata:  c\ndata\n\n")] == ["a\nb\n c\n"]


def test_a_byte_order_mark_is_taken_off_only_at_the_start() -> None:
    first, second = _events(STREAMS["a byte order mark"])[0], _events(STREAMS["a byte order mark"])[1]
    assert (first.kind, first.data, first.start) == ("event", "a", 3)
    assert (second.kind, second.data) == ("stray", "\ufeffdata: b")


def test_name_id_and_retry_belong_to_their_event() -> None:
    first, second = [event for event in _events(STREAMS["all fields"]) if event.kind == "event"]
    assert (first.name, first.id, first.retry, first.data) == ("e", "7", 100, "a")
    assert (second.name, second.id, second.retry, second.data) == ("", "", None, "")


def test_an_unknown_field_is_no_event() -> None:
    assert [event.data for event in _events(STREAMS["all fields"]) if event.kind == "stray"] == ["foo: bar"]


def test_a_comment_is_a_heartbeat_of_its_own_and_does_not_end_an_event() -> None:
    events = _events(STREAMS["comments"])
    assert [(event.kind, event.data) for event in events] == [
        ("comment", "ping"),
        ("comment", "in between"),
        ("event", "a\nb"),
        ("comment", ""),
    ]


def test_an_event_without_data_is_told_apart() -> None:
    (event,) = _events(b"event: ping\n\n")
    assert (event.name, event.lines) == ("ping", 0)


@pytest.mark.parametrize("raw", [b"data: b\n", b"data: b", b"data: b\r", b"data: b\r\n"])
def test_an_event_without_its_blank_line_is_not_whole(raw: bytes) -> None:
    events = _events(b"data: a\n\n" + raw)
    assert [(event.data, event.whole) for event in events] == [("a", True), ("b", False)]


@pytest.mark.parametrize(
    ("name", "ends"),
    [("line feeds", {b"\n"}), ("CR LF", {b"\r\n"}), ("bare CR", {b"\r"}), ("mixed line ends", {b"\r\n", b"\n", b"\r"})],
)
def test_the_kinds_of_line_end_are_told(name: str, ends: set[bytes]) -> None:
    reader = Reader()
    reader.feed(STREAMS[name])
    reader.end()
    assert reader.line_ends == ends


def test_bytes_that_are_no_utf8_are_a_fault_of_their_event_only() -> None:
    assert [event.faults for event in _events(STREAMS["not UTF-8"] + b"data: fine\n\n")] == [
        ("invalid_utf8",),
        ("invalid_utf8",),
        ("invalid_utf8",),
        (),
    ]


def test_a_line_without_end_is_cut_at_the_limit() -> None:
    reader = Reader(limit=100)
    for _ in range(1000):
        assert reader.feed(b"data: " + b"x" * 100) == []
    events = reader.feed(b"\n\ndata: b\n\n")
    assert [(len(event.data), event.faults) for event in events] == [(94, ("line_too_long",)), (1, ())]
    assert events[0].bytes == 106_000 + 2


def test_an_event_of_many_lines_is_cut_at_the_limit() -> None:
    reader = Reader(limit=100)
    (event,) = reader.feed(b"data: 123456789\n" * 1000 + b"\n")
    assert len(event.data) <= 120
    assert event.faults == ("line_too_long",)


def test_a_cut_line_is_not_blamed_for_half_a_character() -> None:
    (event,) = Reader(limit=9).feed("data: aa🙂\n\n".encode())
    assert event.faults == ("line_too_long",)


def test_json_lines_are_an_event_each_and_blank_lines_none() -> None:
    events = _read(LineReader, LINES)
    assert [(event.data, event.whole) for event in events] == [
        ('{"a": "1\\n"}', True),
        ('{"b": "é"}', True),
        ("not json", True),
        ('{"c": 3}', False),
    ]


def test_the_elements_of_an_array_are_an_event_each() -> None:
    first, second = _read(ElementReader, ELEMENTS["an array"])
    assert (first.data, second.data) == ('{"a": "]}\\"{"}', '{"b": [1, {"c": "é\\\\"}]}')
    assert ELEMENTS["an array"][second.start : second.end].decode() == second.data


def test_what_is_cut_in_an_array_is_told() -> None:
    assert [(event.data, event.whole) for event in _read(ElementReader, ELEMENTS["cut in an element"])] == [
        ('{"a":1}', True),
        ('{"b":"x', False),
    ]
    assert _read(ElementReader, ELEMENTS["cut between elements"])[-1].faults == ("array_not_closed",)


def test_an_element_without_end_is_cut_at_the_limit() -> None:
    reader = ElementReader(limit=50)
    (event,) = reader.feed(b'{"a":"' + b"x" * 1000 + b'"}')
    assert (len(event.data), event.bytes, event.faults) == (50, 1008, ("line_too_long",))
