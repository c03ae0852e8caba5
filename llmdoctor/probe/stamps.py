"""When the sender says that it sent an event: its own clock, put onto ours."""

import re
from collections.abc import Sequence
from datetime import datetime

from llmdoctor.probe.pieces import Json, Stamp, inner

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{3,9})(Z|[+-]\d\d:\d\d)")


def stamp_of(document: Json) -> Stamp | None:
    """The stamp in one event: that of the canary, or the `created_at` with fractions of a second that Ollama writes
    into each of its own; None where there is none."""
    told = inner(document, "canary")
    ms, clock = told.get("sent_ms"), told.get("clock_ns")
    if isinstance(ms, int | float) and not isinstance(ms, bool):
        return Stamp(float(ms), clock if isinstance(clock, int) else None)
    text = document.get("created_at") if isinstance(document, dict) else None
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    try:
        whole = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
    return Stamp(whole * 1e3 + float(f"0.{match[2]}") * 1e3)


def sent_ms(arrived: Sequence[tuple[float, Stamp | None]], started_ns: int) -> list[float | None]:
    """Milliseconds since our send for each stamped piece, from (arrival since our send, stamp).

    Exact where sender and reader share a machine: then each piece was sent before it arrived and after we asked. Else
    the clocks are laid over each other so that the quickest piece took no time; what is left is how much later than
    that one the others came."""
    stamped = [(at, stamp) for at, stamp in arrived if stamp is not None]
    if not stamped:
        return [None] * len(arrived)
    here = [((stamp.clock_ns or 0) - started_ns) / 1e6 for _, stamp in stamped]
    if all(0 <= sent <= at for (at, _), sent in zip(stamped, here, strict=True)):
        return [None if stamp is None else ((stamp.clock_ns or 0) - started_ns) / 1e6 for _, stamp in arrived]
    shift = min(at - stamp.ms for at, stamp in stamped)
    return [None if stamp is None else stamp.ms + shift for _, stamp in arrived]
