"""All pieces of one answer together: what was counted, how it ended, and which faults only the whole shows."""

from collections import Counter

from llmdoctor.probe.pieces import CONTENT, Ending, Kind, Outcome, Piece, Problem, Shape, Usage
from llmdoctor.probe.protocols import Dialect


class Tally:
    """Counts the pieces of one answer."""

    def __init__(self, dialect: Dialect) -> None:
        self._ends_with = dialect.ENDS_WITH
        self._kinds: Counter[Kind] = Counter()
        self._chars: Counter[Kind] = Counter()
        self._chunks = 0
        self._refused = False
        self._finished: set[int] = set()
        self._finish_reason: str | None = None
        self._usage = Usage()
        self.faults: Counter[str] = Counter()
        self.documents = 0
        self.known = 0
        self.terminal = False
        self.problem: Problem | None = None

    def count(self, pieces: list[Piece]) -> None:
        """Takes the pieces of one event in. What comes after the end mark no client reads: it is a fault and, but for
        the usage, not counted."""
        ends = any(one.kind == "terminal" for one in pieces)
        content = [one for one in pieces if one.kind in CONTENT]
        closed = {one.choice for one in pieces if one.finish_reason}
        late = self.terminal and not ends
        self.faults.update(name for one in pieces for name in one.faults)
        self.faults.update(self._order_faults(pieces, content, closed, late))
        for one in pieces:
            self._usage = self._usage.then(one.usage) if one.usage else self._usage
            self._finish_reason = self._finish_reason or one.finish_reason
            if not late:
                self._kinds[one.kind] += 1
                self._chars[one.kind] += one.text_chars
                self._refused = self._refused or one.refusal
                self.problem = self.problem or one.problem
        self._chunks += bool(content) and not late
        self._finished |= closed
        self.terminal = self.terminal or ends

    def _order_faults(self, pieces: list[Piece], content: list[Piece], closed: set[int], late: bool) -> list[str]:
        if late and (content or any(one.kind == "error" for one in pieces)):
            return ["data_after_terminator"]
        if late and any(one.usage for one in pieces):
            return ["usage_after_terminator"]
        # Some models repeat the finish reason in every event: only content without one is out of order.
        after = any(one.choice in self._finished and one.choice not in closed for one in content)
        return ["text_after_finish"] * after

    def ending(self, shape: Shape, problem: Problem | None, clean: bool, status: int, written: list[str]) -> Ending:
        """How the answer ended. `problem` is what the body told in the end, `written` are faults of its writing."""
        done = self.terminal or (clean and "terminal" not in self._ends_with and shape != "none")
        faults = Counter(self.faults)
        if status < 300:
            faults.update(written)
            faults.update(self._last_faults(shape, problem, clean, done))
        return Ending(
            outcome=self._outcome(shape, problem, clean, done),
            shape=shape,
            terminal_seen=self.terminal,
            finish_reason=self._finish_reason,
            usage=self._usage,
            problem=problem,
            chunks=self._chunks,
            text_chars=self._chars["text"],
            reasoning_chars=self._chars["reasoning"],
            tool_chars=self._chars["tool"],
            refused=self._refused,
            faults={name: count for name, count in sorted(faults.items()) if count},
        )

    def _outcome(self, shape: Shape, problem: Problem | None, clean: bool, done: bool) -> Outcome:
        if problem:
            return "rate_limited" if problem.error_type in ("rate_limit", "quota") else "failed"
        if shape == "none" and clean:
            return "empty"
        if not done:
            return "incomplete"
        # Reasoning alone is no answer.
        return "completed" if self._kinds["text"] or self._kinds["tool"] or self._chars["terminal"] else "empty"

    def _last_faults(self, shape: Shape, problem: Problem | None, clean: bool, done: bool) -> list[str]:
        found = []
        streamed = shape in ("sse", "ndjson", "elements")
        if self.documents and not self.known and not problem:
            found.append("unknown_protocol")
        elif streamed and not problem and not done and clean:
            found.append("no_terminator")
        if self.terminal and self._chunks and not self._finish_reason and not problem:
            found += ["no_finish_reason"] * ("finish_reason" in self._ends_with)
        if done and not clean:
            found.append("unclean_end")
        if streamed and self._chars["terminal"] and not self._kinds["text"]:
            found.append("text_only_at_end")
        return found
