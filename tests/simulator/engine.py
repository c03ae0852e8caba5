"""One replica: continuous batching with decode priority, chunked prefill, FCFS waiting, KV memory, a prefix cache.

vLLM V1 semantics (knowledge/diagnosis.md 3.1): every step gives one token to each running decoder and spends the rest
of the token budget on prefill, running prompts first, then waiting ones in order of arrival while slots and KV memory
last. When KV memory runs out the youngest decoder is preempted, its blocks are freed and it is recomputed later from
the front of the queue. The work per step is constant here: contexts and memory are kept as sums, ends in a heap, and
steps that only decode are laid out ahead as one run, which an arrival or an abort cuts after the step in progress.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from itertools import cycle
from math import log

from tests.simulator.door import ColdStart, Gateway
from tests.simulator.jobs import Clock, Job
from tests.simulator.setups import STEP_NOISE
from tests.simulator.world import Instance

BLOCK = 16  # tokens of a KV block (vLLM default); prefixes are shared in whole blocks
PREFIXES = 64  # prefixes that stay in the cache of a replica
RUN = 64  # steps laid out ahead at most


class Replica:
    """The engine of one instance. ``slow(t)`` is the factor on step times at t."""

    def __init__(
        self,
        instance: Instance,
        clock: Clock,
        rng: random.Random,
        slow: Callable[[float], float],
        cold: ColdStart | None,
        door: Gateway | None = None,
    ) -> None:
        self.instance, self.clock, self.rng, self.slow, self.cold = instance, clock, rng, slow, cold
        self.waiting: deque[Job] = deque()
        self.prefilling: list[Job] = []
        self.decoding: dict[Job, None] = {}
        self.step_ends: list[float] = []
        self.busy = False
        self.idle_since = 0.0
        self.door = door or Gateway()
        self.preempted = self.asked_tokens = self.hit_tokens = 0
        self.step_ms = 0.0
        self._options: str | None = None  # what the engine is loaded with; None = nothing asked yet
        self._ready = 0.0
        self._prefixes: OrderedDict[str, None] = OrderedDict()
        self._context = 0  # tokens of context of all decoders
        self._kv = 0  # tokens of KV memory in use
        self._due: list[tuple[int, int, Job]] = []
        self._order = 0
        self._chunks: list[tuple[Job, int]] = []
        self._run: list[float] = []  # ends of the steps that are laid out and not yet over
        self._plan = 0  # number of the layout; the end of an older one is void
        self._noise = cycle([rng.lognormvariate(0.0, STEP_NOISE) for _ in range(1009)])

    @property
    def kv_share(self) -> float:
        return self._kv / self.instance.kv_tokens

    @property
    def load(self) -> int:
        return len(self.waiting) + len(self.prefilling) + len(self.decoding)

    def submit(self, job: Job) -> None:
        """Queues a job now; wakes the engine, which may first have to be loaded."""
        now = self.clock.now
        job.submitted = now
        self.waiting.append(job)
        if self.busy:
            self._interrupt()
            return
        self.busy = True
        wake = now
        if self.cold and not self.cold.in_front and now - self.idle_since > self.cold.idle_s:
            wake += self.rng.lognormvariate(log(self.cold.load_s), 0.25)
        self.clock.at(wake, self._begin)

    def abort(self, job: Job) -> None:
        """Frees what a job holds; the step in progress is not interrupted."""
        if job.finished or job.aborted:
            return
        job.aborted = True
        self._interrupt()
        if job in self.decoding:
            self._leave(job)
        elif job in self.prefilling:
            self.prefilling.remove(job)
            self._kv -= job.held
        elif job in self.waiting:
            self.waiting.remove(job)

    def token_times(self, job: Job) -> list[float]:
        """Engine instants of every token produced so far, in order."""
        self._commit(self._over())
        spans = list(job.spans)
        if job in self.decoding:
            spans.append((job.joined, len(self.step_ends) - 1))
        return [end for first, last in spans for end in self.step_ends[first : last + 1]]

    def _begin(self) -> None:
        if not (self.waiting or self.prefilling or self.decoding):
            self.busy, self.idle_since = False, self.clock.now
            return
        if self._reloads():
            self.clock.at(self._ready, self._begin)
            return
        tokens, pairs = self._fill(max(0, self.instance.setup.budget - len(self.decoding)))
        self._lay_out(1 if tokens or self.waiting or self.prefilling else self._free_steps(), tokens, pairs)
        self._schedule()

    def _reloads(self) -> bool:
        """Other options are loaded once nothing runs any more; nobody is served meanwhile (Ollama, one runner)."""
        if not self.door.reload_s or not self.waiting or self.prefilling or self.decoding:
            return False
        wanted = self.waiting[0].options
        changed, self._options = self._options not in {None, wanted}, wanted
        if changed:
            self._ready = self.clock.now + self.rng.lognormvariate(log(self.door.reload_s), 0.2)
        return changed

    def _free_steps(self) -> int:
        """Steps until the first decoder ends or memory could run out."""
        while not self._alive(self._due[0]):
            heapq.heappop(self._due)
        ends = self._due[0][0] - len(self.step_ends) + 1
        room = (self.instance.kv_tokens - self._kv) // len(self.decoding)
        return max(1, min(RUN, ends, room))

    def _lay_out(self, steps: int, tokens: int, pairs: float) -> None:
        setup, batch, now = self.instance.setup, len(self.decoding), self.clock.now
        fixed = setup.base_ms + setup.seq_ms * (batch + len(self.prefilling))
        fixed += setup.prefill_ms * tokens + setup.pair_ms * pairs
        self.step_ms = fixed + setup.ctx_ms * self._context
        for step in range(steps):
            ms = fixed + setup.ctx_ms * (self._context + step * batch)
            now += ms * self.slow(now) * next(self._noise) / 1000
            self._run.append(now)

    def _schedule(self) -> None:
        self._plan += 1
        self.clock.at(self._run[-1], partial(self._end, self._plan))

    def _interrupt(self) -> None:
        """Something changed: the layout ends with the step in progress."""
        self._commit(self._over())
        if len(self._run) > 1:
            del self._run[1:]
            self._schedule()

    def _over(self) -> int:
        """Laid-out steps that are over by now; the last one is left to ``_end``."""
        return min(bisect_left(self._run, self.clock.now), max(0, len(self._run) - 1))

    def _commit(self, steps: int) -> None:
        """Books steps that only decoded."""
        self.step_ends.extend(self._run[:steps])
        del self._run[:steps]
        self._context += steps * len(self.decoding)
        self._kv += steps * len(self.decoding)

    def _fill(self, budget: int) -> tuple[int, float]:
        """Spends the budget on prompts. Returns tokens and (token, context token) pairs of this step."""
        self._chunks, tokens, pairs = [], 0, 0.0
        for job in self.prefilling:
            tokens, pairs = self._chunk(job, budget, tokens, pairs)
        while self.waiting and tokens < budget and len(self.prefilling) + len(self.decoding) < self.instance.slots:
            if not self._admit(self.waiting[0]):
                break
            job = self.waiting.popleft()
            self.prefilling.append(job)
            tokens, pairs = self._chunk(job, budget, tokens, pairs)
        return tokens, pairs

    def _chunk(self, job: Job, budget: int, tokens: int, pairs: float) -> tuple[int, float]:
        size = min(job.left, budget - tokens)
        if size <= 0:
            return tokens, pairs
        self._chunks.append((job, size))
        done = job.prompt + job.produced - job.left
        return tokens + size, pairs + size * (done + size / 2)

    def _admit(self, job: Job) -> bool:
        need = job.prompt + job.produced
        if self.door.reload_s and job.options != self._options:
            return False
        if self._kv + need + len(self.decoding) > self.instance.kv_tokens and (self.decoding or self.prefilling):
            return False
        hit = job.prefix in self._prefixes and self.clock.now < self.door.cache_until
        cached = min(job.prefix_tokens, need - 1) // BLOCK * BLOCK if hit else 0
        if job.scheduled is None:
            job.scheduled, job.cached = self.clock.now, cached
            self.asked_tokens += job.prompt
            self.hit_tokens += cached
        job.left, job.held = need - cached, need
        self._kv += need
        return True

    def _end(self, plan: int) -> None:
        if plan != self._plan:
            return
        self._commit(len(self._run))
        step = len(self.step_ends) - 1
        while self._due and self._due[0][0] <= step:
            entry = heapq.heappop(self._due)
            if self._alive(entry):
                self._finish(entry[2], step)
        for job, size in self._chunks:
            if not job.aborted:
                job.left -= size
                if job.left == 0:
                    self._first_token(job, step)
        while self._kv > self.instance.kv_tokens and len(self.decoding) > 1:
            self._preempt()
        self._begin()

    def _alive(self, entry: tuple[int, int, Job]) -> bool:
        """Whether an entry of the heap still stands: its job was neither aborted nor preempted since."""
        return entry[2] in self.decoding and entry[2].ends_at_step == entry[0]

    def _first_token(self, job: Job, step: int) -> None:
        self.prefilling.remove(job)
        self._prefixes[job.prefix] = None
        self._prefixes.move_to_end(job.prefix)
        if len(self._prefixes) > PREFIXES:
            self._prefixes.popitem(last=False)
        job.first = job.first if job.first is not None else self.clock.now
        job.joined, job.ends_at_step = step, step + job.answer - job.produced - 1
        self.decoding[job] = None
        self._context += job.held + 1
        self._kv += 1
        if job.ends_at_step <= step:
            self._finish(job, step)
        else:
            self._order += 1
            heapq.heappush(self._due, (job.ends_at_step, self._order, job))

    def _leave(self, job: Job) -> None:
        """Takes a decoder out and frees its memory."""
        del self.decoding[job]
        last = len(self.step_ends) - 1
        job.spans.append((job.joined, last))
        made = last - job.joined + 1
        job.produced += made
        self._context -= job.held + made
        self._kv -= job.held + made

    def _finish(self, job: Job, step: int) -> None:
        self._leave(job)
        job.done, job.finished = self.step_ends[step], True
        job.on_end()

    def _preempt(self) -> None:
        job = next(reversed(self.decoding))
        self._leave(job)
        job.preemptions += 1
        self.preempted += 1
        self.waiting.appendleft(job)
