"""What a client of a stream may choke on: a fixed list, one sentence each."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Fault:
    """`breaks`: a client that follows the standard loses data or fails. `fragile`: allowed, but widely used clients
    are known to fail. `note`: allowed and common; worth knowing when one client fails and another does not."""

    level: Literal["breaks", "fragile", "note"]
    text: str


FAULTS: dict[str, Fault] = {
    # The event stream as such.
    "crlf_lines": Fault("note", "Lines end in CR LF; clients that split at two line feeds see one endless event."),
    "cr_lines": Fault("fragile", "Lines end in a bare CR, which most hand-written readers do not split at."),
    "mixed_line_ends": Fault("fragile", "Line ends of several kinds are mixed in one stream."),
    "no_space_after_colon": Fault(
        "note", "Fields have no space after the colon; readers that cut six characters fail."
    ),
    "byte_order_mark": Fault("fragile", "The stream begins with a byte order mark; many readers lose the first event."),
    "invalid_utf8": Fault("breaks", "The body is not valid UTF-8: the sender cut or recoded characters."),
    "replacement_character": Fault(
        "breaks", "The answer holds U+FFFD: a character was destroyed before the answer was sent."
    ),
    "split_character": Fault("breaks", "One character is split over two events as halves of a surrogate pair."),
    "line_too_long": Fault("breaks", "A line or event is longer than the limit of this reader and was cut."),
    "event_unfinished": Fault(
        "breaks", "The body ends without the blank line that completes the last event: it is lost."
    ),
    "no_blank_line": Fault("breaks", "Events are not separated by a blank line (two line ends) and arrive as one."),
    "json_over_lines": Fault("fragile", "One JSON document is spread over several data lines."),
    "json_without_data": Fault("breaks", "JSON stands in a line without `data:`: readers of event streams drop it."),
    "done_without_data": Fault("breaks", "[DONE] stands in a line without `data:`: clients never see the end."),
    "double_data_prefix": Fault("breaks", "`data: data:`: an event stream was wrapped into an event stream."),
    "double_encoded": Fault("breaks", "The data is JSON inside a JSON string: it was encoded twice."),
    "comment_in_data": Fault("breaks", "A comment was wrapped into `data:`: clients parse it as JSON and fail."),
    "empty_data": Fault("fragile", "An event has empty data; widely used clients parse it as JSON and fail."),
    "event_without_data": Fault("fragile", "An event has a name or an id but no data; some clients parse it and fail."),
    "unknown_field": Fault("note", "A line is no field of the event stream standard and is ignored."),
    "invalid_json": Fault("breaks", "The data of an event is not JSON."),
    "not_strict_json": Fault("breaks", "The JSON holds NaN or Infinity, which only some parsers accept."),
    # Something else in place of the stream, or inside it.
    "json_instead_of_stream": Fault("breaks", "A stream was asked for and one JSON document came."),
    "stream_instead_of_json": Fault("breaks", "One JSON document was asked for and an event stream came."),
    "text_instead_of_stream": Fault("breaks", "Plain text came where an answer of this API was expected."),
    "html_in_body": Fault("breaks", "An HTML page came in place of the answer or inside it."),
    "http_in_body": Fault(
        "breaks", "A second HTTP response was written into the body: a worker died while it streamed."
    ),
    "unexpected_framing": Fault("breaks", "The answer is framed as an event stream; this API sends one JSON a line."),
    "wrong_content_type": Fault(
        "breaks", "The content type does not say what the body is: browsers refuse the stream."
    ),
    "array_not_closed": Fault("breaks", "The JSON array of the answer is never closed."),
    # The dialect.
    "no_terminator": Fault("breaks", "The body ends in good order but without the end mark of this API."),
    "no_finish_reason": Fault("fragile", "The end mark came but no finish reason: strict clients take it for a cut."),
    "foreign_terminator": Fault("fragile", "[DONE] came in an API that ends with another event."),
    "terminator_twice": Fault("note", "[DONE] came twice."),
    "data_after_terminator": Fault("breaks", "Events follow the end mark: clients have stopped reading."),
    "usage_after_terminator": Fault("breaks", "The usage comes after the end mark: clients never see it."),
    "text_after_finish": Fault("fragile", "Content follows the finish reason: clients that stop there lose it."),
    "text_only_at_end": Fault("breaks", "The answer is only in the last event, no delta carried it."),
    "message_instead_of_delta": Fault("breaks", "Events of the stream carry `message` where clients read `delta`."),
    "no_event_name": Fault("breaks", "Events have no `event:` line, by which clients of this API choose what to read."),
    "unknown_event": Fault("note", "An event is JSON that this API does not describe."),
    "unknown_protocol": Fault("breaks", "No event is one of this API: probably another protocol is spoken here."),
    "unclean_end": Fault("fragile", "The connection was cut after the answer was complete."),
}
