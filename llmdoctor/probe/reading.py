"""The bytes of one answer -> its pieces as they are completed, and how it ended. No clock, no I/O, no text kept."""

from collections.abc import Collection
from dataclasses import replace

from llmdoctor.probe import elements, sse
from llmdoctor.probe.documents import opened, parsed
from llmdoctor.probe.foreign import KEPT, foreign, page_problem, text_problem, with_status
from llmdoctor.probe.pieces import DONE, Ending, Message, Piece, Placed, Shape, Stamp
from llmdoctor.probe.problems import told_problem
from llmdoctor.probe.protocols import Dialect
from llmdoctor.probe.stamps import stamp_of
from llmdoctor.probe.tally import Tally

_BLANK = b" \t\r\n\xef\xbb\xbf"
_MAX_BLANK = 65536


class Reading:
    """Reads one answer. `feed` what arrives, `end` once, then ask for the `ending`.

    status, content_type: of the response; an empty content type is an absent header, None is not known."""

    def __init__(
        self, dialect: Dialect, stream: bool = True, status: int = 200, content_type: str | None = None
    ) -> None:
        self._dialect, self._stream, self._status, self._type = dialect, stream, status, content_type
        self._tally = Tally(dialect)
        self._head: bytearray | None = bytearray()
        self._reader: sse.Reader | elements.LineReader | elements.ElementReader = sse.Reader()
        self._shape: Shape = "none"
        self._clean = True
        self._bare = self._foreign = False
        self._strays = 0
        self._text = ""
        self._stamp: Stamp | None = None

    def feed(self, data: bytes) -> list[Placed]:
        """The pieces of the events that these bytes complete."""
        if self._head is not None:
            self._head += data
            if not self._head.lstrip(_BLANK) and len(self._head) < _MAX_BLANK:
                return []
            data = self._choose()
        return self._events(self._reader.feed(data))

    def end(self, clean: bool = True) -> list[Placed]:
        """The pieces of what was begun. `clean` is false where the body was cut: connection lost, framing broken, or
        the reader gave up; then an unfinished event is no fault of its own."""
        self._clean = clean
        last = self._reader.feed(self._choose()) if self._head is not None else []
        return self._events([*last, *self._reader.end()])

    def ending(self) -> Ending:
        """How the answer ended: to be asked after `end`."""
        shape: Shape = "text" if self._shape == "none" and self._text.strip() else self._shape
        told = self._tally.problem
        if shape == "html":
            told = page_problem(self._text, self._status)
        elif shape == "text" and not self._foreign:
            told = text_problem(self._text, self._status)
        problem = with_status(told, self._status)
        return self._tally.ending(shape, problem, self._clean, self._status, self._written_faults(shape))

    def _choose(self) -> bytes:
        """Chooses the reader by the first byte, and returns what it is to be fed."""
        data, self._head = bytes(self._head or b""), None
        framing = self._dialect.FRAMING
        if data.lstrip(_BLANK)[:1] in (b"{", b"["):
            lines = framing == "ndjson" and self._stream and self._status < 300
            self._reader = elements.LineReader() if lines else elements.ElementReader()
            self._shape = "ndjson" if lines else "elements"
            self._bare = framing == "sse"
        return data

    def _events(self, events: list[sse.Event]) -> list[Placed]:
        """The events, read and counted."""
        placed = []
        for event in events:
            pieces = self._read(event)
            self._tally.count(pieces)
            placed += [
                Placed(piece, event.end, event.bytes * (number == 0), event.name[:60], self._stamp)
                for number, piece in enumerate(pieces)
            ]
        return placed

    def _read(self, event: sse.Event) -> list[Piece]:
        """What one event is."""
        self._stamp = None
        if event.kind == "stray":
            return self._stray(event)
        if isinstance(self._reader, sse.Reader):
            self._shape = "sse"
        if event.kind == "comment":
            return [Piece("comment", faults=event.faults)]
        if not event.lines:
            return self._without_data(event)
        messages, faults = opened(event)
        self._stamp = stamp_of(messages[0].document)
        if not event.whole:
            if any(one.document is None and one.text != DONE for one in messages):
                self._fault(_unended(event) if self._clean else None)
                return []
            # A line of JSON says itself that it is whole; an event of a stream is lost without its blank line.
            faults += ("event_unfinished",) * (self._clean and isinstance(self._reader, sse.Reader))
        self._tally.documents += 1
        read = self._document if self._bare else self._message
        pieces = [piece for one in messages for piece in read(one, faults)]
        if "invalid_utf8" in faults:
            # Our own decoding put the U+FFFD there.
            pieces = [
                replace(one, faults=tuple(x for x in one.faults if x != "replacement_character")) for one in pieces
            ]
        return _with(faults, pieces)

    def _without_data(self, event: sse.Event) -> list[Piece]:
        """An event that no client is told of: `retry` alone is usual, a name or an id is not."""
        if not event.whole:
            self._fault(*(event.faults if self._clean else ()))
            return []
        named = event.name or event.id is not None
        return [Piece("event", faults=event.faults + ("event_without_data",) * bool(named))]

    def _message(self, message: Message, faults: Collection[str] = ()) -> list[Piece]:
        """One message of a stream as the dialect means it."""
        told = told_problem(message.document, self._status >= 300 or message.name == "error")
        if told:
            self._tally.known += 1
            return [Piece("error", problem=told)]
        found = self._dialect.delta(message) if message.text else []
        if not found and message.document is not None:
            found = _with(("message_instead_of_delta",), self._dialect.answer(message.document))
        if found and message.text == DONE and self._tally.terminal:
            found = [Piece("event", faults=("terminator_twice",))]
        self._tally.known += bool(found)
        return found or self._unknown(message, faults)

    def _unknown(self, message: Message, faults: Collection[str]) -> list[Piece]:
        """A message that is none of the dialect."""
        if not message.text:
            return [Piece("comment" if "comment_in_data" in faults else "event")]
        if message.text == DONE:
            # Gateways add it to APIs that have an end mark of their own: harmless behind that mark.
            return [Piece("event", faults=() if self._tally.terminal else ("foreign_terminator",))]
        if message.document is not None:
            return [Piece("event", faults=("unknown_event",))]
        found = [] if self._foreign else self._foreign_piece(message.text, anywhere=True)
        explained = self._foreign or "line_too_long" in faults
        return found or [Piece("event", faults=() if explained else ("invalid_json",))]

    def _document(self, message: Message, faults: Collection[str] = ()) -> list[Piece]:
        """One document outside of any event: the whole answer, an error, or an event that nothing frames."""
        if message.text == DONE:
            return _with(("done_without_data",), self._message(message))
        alone = self._tally.documents == 1
        told = told_problem(message.document, self._status >= 300 or message.name == "error")
        whole = [Piece("error", problem=told)] if told else self._dialect.answer(message.document)
        if not alone or message.name or not whole:
            return _with(("json_without_data",), self._message(message, faults))
        self._tally.known += 1
        self._shape = "json"
        return _with(("json_instead_of_stream",) if self._stream and self._status < 300 else (), whole)

    def _stray(self, event: sse.Event) -> list[Piece]:
        """A line that is no event: nothing for a client, much for us."""
        text = event.data.strip()
        if self._foreign or not text:
            self._keep(text)
            return []
        if text.startswith("data:"):
            messages, faults = opened(replace(event, kind="event", data=text.removeprefix("data:")))
            return _with(faults, [piece for one in messages for piece in self._message(one, faults)])
        if text.startswith(DONE):
            return _with(("done_without_data",), self._message(Message("", DONE)))
        found = self._foreign_piece(text, anywhere=False)
        if found:
            return found
        # Old llama.cpp sends its errors as `error: {...}`.
        name, _, value = ("", "", text) if text[0] in "{[" else text.partition(":")
        try:
            document = parsed(value.strip())[0]
        except ValueError:
            document = None
        if isinstance(document, (dict, list)):
            self._tally.documents += 1
            return self._document(Message(name.strip(), value, document))
        self._strays += event.whole
        # The beginning of a cut line says nothing: it may become a field.
        self._keep(text if event.whole or self._clean else "")
        return []

    def _foreign_piece(self, text: str, anywhere: bool) -> list[Piece]:
        """An error where the text is an HTML page or another HTTP response, else nothing."""
        found = foreign(text, self._status, anywhere)
        if not found:
            return []
        self._foreign = True
        self._text = text[:KEPT]
        if self._shape == "none" and "HTML" in (found.problem.message if found.problem else ""):
            self._shape = "html"
        return [found]

    def _keep(self, text: str) -> None:
        if len(self._text) < KEPT:
            self._text = f"{self._text}\n{text}"[:KEPT]

    def _fault(self, *names: str | None) -> None:
        self._tally.faults.update(name for name in names if name)

    def _written_faults(self, shape: Shape) -> list[str]:
        """How the body was written."""
        found: list[str] = []
        if isinstance(self._reader, sse.Reader) and shape == "sse":
            ends = self._reader.line_ends
            one = {frozenset({b"\r\n"}): ["crlf_lines"], frozenset({b"\r"}): ["cr_lines"]}.get(ends, [])
            found += ["mixed_line_ends"] if len(ends) > 1 else one
            found += ["no_space_after_colon"] * self._reader.spaceless + ["byte_order_mark"] * self._reader.bom
            found += ["unknown_field"] * bool(self._strays)
            if not self._stream:
                found.append("stream_instead_of_json")
            elif self._dialect.FRAMING == "ndjson":
                found.append("unexpected_framing")
        if shape == "text" and not self._foreign:
            found.append("text_instead_of_stream")
        media = None if self._type is None else self._type.partition(";")[0].strip().lower()
        if media is not None and self._stream and shape in ("sse", "ndjson", "elements"):
            found += ["wrong_content_type"] * ((media == "text/event-stream") != (shape == "sse"))
        return found


def _with(faults: Collection[str], pieces: list[Piece]) -> list[Piece]:
    """The pieces, the first of them with these faults as well."""
    return [replace(pieces[0], faults=(*faults, *pieces[0].faults)), *pieces[1:]] if pieces and faults else pieces


def _unended(event: sse.Event) -> str:
    """The fault of an event that the body does not complete. A sender that ends each of its events with one line end
    instead of two has sent a single one, and that is never whole."""
    try:
        several = event.lines > 1 and isinstance(parsed(event.data.partition("\n")[0])[0], dict)
    except ValueError:
        several = False
    return "no_blank_line" if several else "event_unfinished"


def read(dialect: Dialect, body: bytes, stream: bool = True, clean: bool = True, status: int = 200) -> Ending:
    """The ending of an answer that is already there as a whole."""
    reading = Reading(dialect, stream, status)
    reading.feed(body)
    reading.end(clean)
    return reading.ending()
