"""The data of one event -> the JSON documents in it, with every way in which senders wrap them wrongly."""

import json
import re
from collections.abc import Iterator
from itertools import islice

from llmdoctor.probe.pieces import DONE, Json, Message
from llmdoctor.probe.sse import Event


def _no_constant(name: str) -> Json:
    raise ValueError(name)


_STRICT = json.JSONDecoder(parse_constant=_no_constant)
_LENIENT = json.JSONDecoder()
# So many documents in one event are no forgotten blank lines.
_MAX_JOINED = 1000
_BETWEEN = re.compile(r"(?:\s|data:)*")


def parsed(text: str) -> tuple[Json, tuple[str, ...]]:
    """The JSON document that the text is, and the faults of it. ValueError where it is none."""
    try:
        return _STRICT.decode(text), ()
    except (ValueError, RecursionError):
        try:
            return _LENIENT.decode(text), ("not_strict_json",)
        except RecursionError:
            raise ValueError("nested too deeply") from None


def opened(event: Event) -> tuple[list[Message], tuple[str, ...]]:
    """What the data of an event is: nearly always one message. Faults name what had to be undone to read it. A message
    without a document is text that is no JSON."""
    text, faults = event.data.strip(), event.faults
    if text.startswith("data:"):
        faults += ("double_data_prefix",)
        while text.startswith("data:"):
            text = text.removeprefix("data:").strip()
    if not text or text in ('""', "null"):
        return [Message(event.name, "")], (*faults, "empty_data")
    if text.startswith(":"):
        return [Message(event.name, "")], (*faults, "comment_in_data")
    if text.startswith(DONE):
        return [Message(event.name, DONE)], faults
    return _read(event, text, faults)


def _read(event: Event, text: str, faults: tuple[str, ...]) -> tuple[list[Message], tuple[str, ...]]:
    """The messages of a text that is not empty and no end mark."""
    try:
        document, found = parsed(text)
    except ValueError:
        several = list(islice(_joined(text, event.name), _MAX_JOINED)) if event.whole else []
        if not 1 < len(several) < _MAX_JOINED or any(one.document is None and one.text != DONE for one in several):
            return [Message(event.name, event.data)], faults
        return several, (*faults, "no_blank_line")
    faults += (*found, *(("json_over_lines",) * (event.lines > 1)))
    unwrapped = _unwrapped(document) if isinstance(document, str) else None
    if unwrapped:
        return [Message(event.name, *unwrapped)], (*faults, "double_encoded")
    # Plain text keeps its blanks: where a protocol is text, they are part of the answer.
    return [Message(event.name, text if isinstance(document, (dict, list)) else event.data, document)], faults


def _joined(text: str, name: str) -> Iterator[Message]:
    """The documents of a text in which several follow each other, with `data:` or line ends between them."""
    at = 0
    while at < len(text):
        between = _BETWEEN.match(text, at)
        at = between.end() if between else at
        if text.startswith(DONE, at):
            yield Message(name, DONE)
            at += len(DONE)
        elif at < len(text):
            try:
                document, stop = _STRICT.raw_decode(text, at)
            except (ValueError, RecursionError):
                yield Message(name, text[at:])
                return
            yield Message(name, text[at:stop], document)
            at = stop


def _unwrapped(text: str) -> tuple[str, Json] | None:
    """The text and document of a JSON string that holds JSON or a `data:` line, None where it does not."""
    text = text.strip().removeprefix("data:").strip()
    if text == DONE:
        return DONE, None
    try:
        document, _ = parsed(text)
    except ValueError:
        return None
    return (text, document) if isinstance(document, (dict, list)) else None
