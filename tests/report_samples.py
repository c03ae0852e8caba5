"""Diagnoses for the tests of the report: an ordinary one, a hostile one, a huge one, and one that knows nothing."""

import dataclasses
import math

from llmdoctor.diagnose.pictures import (
    Distribution,
    Heat,
    Instance,
    Instances,
    Pictures,
    Relation,
    Step,
    Wall,
)
from llmdoctor.diagnose.values import (
    Advice,
    Bin,
    Case,
    CaseGroup,
    Cause,
    Diagnosis,
    Evidence,
    Example,
    Fix,
    InputFile,
    Metric,
    MissingField,
    Part,
    RuleTally,
    Symptom,
    Timeline,
    TimeoutAdvice,
    Unexplained,
    Verdict,
)

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "<!-- <script>",
    "](javascript:alert(3)) ![x](http://evil.example/x.png) @everyone #1",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b31m \u202egnp.exe",
    '"><img src=x onerror=alert(4)>',
    "| a | b |\n|---|---|\n| c | d |",
    "`code` **bold** _it_ {{ 7*7 }} {% raw %} &amp; \ud800 Zürich 東京 🚀",
    "\u0610\u0e47" * 80 + " Z" + "\u0338" * 40,
    "hid\xadden \u061c\u3164\U000e0041",
    "x" * 3000,
)

FIX_ENGINE = """Raise the number of sequences that run at once, as far as the KV cache allows:

```
vllm serve MODEL --max-num-seqs 256
```

- Watch `vllm:kv_cache_usage_perc`: above 0.95 the gain turns into preemptions.
- Add a replica where the cache is full already.
"""


def bins() -> tuple[Bin, ...]:
    """Two hours in steps of two minutes, with an incident from minute 40 to 64."""
    made = []
    for number in range(60):
        bad = 20 <= number < 32
        wave = 1 + 0.3 * math.sin(number / 5)
        made.append(
            Bin(
                at=f"2026-08-01T{13 + number * 2 // 60:02d}:{number * 2 % 60:02d}:00Z",
                requests=round(300 * wave) + (180 if bad else 0),
                failures=40 + number if bad else number % 3,
                retries=60 if bad else 2,
                p50_ttft_ms=None if number in {45, 46} else round(400 * wave) + (2600 if bad else 0),
                p99_ttft_ms=None if number in {45, 46} else round(1900 * wave) + (22_000 if bad else 0),
                p50_total_ms=4000.0,
                p99_total_ms=31_000.0,
                max_in_flight=64 if bad else 22,
            )
        )
    return tuple(made)


def pictures() -> Pictures:
    """The charts of the same two hours: two latencies, two relations, a heat map and three replicas."""
    spread = Distribution(
        "gateway",
        "llama-3.3-70b",
        True,
        "ttft_ms",
        45,
        tuple(40 + 30 * (n % 7) for n in range(46)),
        (),
        (),
    )
    whole = dataclasses.replace(
        spread,
        name="total_ms",
        first=60,
        cut=(0,) * 29 + (212,) + (0,) * 16,
        walls=(Wall(30_000.0, 19_870, "limit"), Wall(30_010.0, 212, "timeout")),
    )
    steps = tuple(
        Step(2**n, 2 ** (n + 1) - 1, 500, 100.0 * n, 900.0 * n, 24_000.0, 80.0 * n, 2600.0 if n > 6 else None)
        for n in range(5, 13)
    )
    load = tuple(dataclasses.replace(one, calm_p50_ms=None, busy_p50_ms=None) for one in steps)
    heat = Heat("ttft_ms", 1, 18, tuple((5, 40 + n, 20, 0, 0, int(20 <= n < 32)) for n in range(60)))
    rows = tuple(
        Instance(
            f"10.0.0.{n}:8000",
            6_600,
            n,
            400.0 * n,
            (*((110, 400.0 * n, 2000.0) for _ in range(59)), (0, None, None)),
        )
        for n in (1, 2, 7)
    )
    return Pictures(
        ("high_ttft", "gateway"),
        (spread, whole),
        (Relation("gateway", "ttft_ms", "input_tokens", 1, steps), Relation("gateway", "ttft_ms", "others", 3, load)),
        heat,
        Instances("gateway", "ttft_ms", 1, rows, 4),
    )


def _advice(kind: str, value: float, unit: str, text: str, estimate: bool = False) -> Advice:
    return Advice(kind, "gateway", "llama-3.3-70b", None, value, unit, text, "16,458 calls", estimate, 16_458)


def symptom(**changes: object) -> Symptom:
    """A first token that comes late."""
    plain = Symptom(
        id="high_ttft",
        title="Requests wait long for their first token",
        severity="critical",
        state="present",
        vantage="gateway",
        subject="model=llama-3.3-70b",
        observed=24_310.0,
        expected=2000.0,
        unit="ms",
        affected=3_412,
        total=19_870,
        first_at="2026-08-01T13:40:12Z",
        last_at="2026-08-01T14:03:58Z",
        reason=None,
        why="A person reads slower than a model writes: the wait before the first word **is** what they feel.",
        caveat="A batch endpoint that nobody waits for.",
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]  # test code: keys are checked at run time


def cause(**changes: object) -> Cause:
    """A queue in the engine."""
    plain = Cause(
        id="queueing",
        title="Requests queue for the engine",
        layer="inference",
        symptom="high_ttft",
        subject="model=llama-3.3-70b",
        explains=("high_ttft", "client_timeouts", "tail_latency"),
        confidence=0.78,
        provisional=True,
        rank=1,
        affected=3_120,
        excess=41_230_000.0,
        excess_share=0.71,
        evidence=(
            Evidence(
                "At equal prompt length the first token waits 6.2x longer when 48 or more requests run",
                "for",
                {"ratio": 6.2, "busy": 48},
            ),
            Evidence(
                "Time per output token stays flat (21 ms busy, 20 ms quiet)", "for", {"busy": 21.0, "quiet": 20.0}
            ),
            Evidence("Of the slowest hundred requests 4 ran alone", "against", {"alone": 4}),
            Evidence("Whether the engine's own queue grew cannot be told: no record has queue_ms.", "unknown", {}),
        ),
        fix=(
            Fix("vLLM", FIX_ENGINE),
            Fix("LiteLLM", "Set `max_parallel_requests` for the model, so that the excess is refused at once."),
            Fix("nginx", "Add `limit_conn` per upstream."),
        ),
        verify="Run the same hour again:\n\n```\n"
        "llmdoctor analyze logs/ --only high_ttft\n```\n\nP95 TTFT should fall below 2 s.",
        caveat="A load test that fills the engine on purpose.",
        examples=(
            Example("req-7f3a9c21", "logs/gateway.jsonl.gz", 48_211),
            Example("req-7f3a9d02", "logs/gateway.jsonl.gz", 48_219),
        ),
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]  # test code: keys are checked at run time


def cases() -> tuple[CaseGroup, ...]:
    """One group of three."""

    def one(kind: str, total: float, parts: tuple[Part, ...], outcome: str, remark: str | None) -> Case:
        return Case(
            kind=kind,  # type: ignore[arg-type]  # one of the three words
            example=Example(f"req-{kind}-1", "logs/gateway.jsonl.gz", 48_211),
            vantage="gateway",
            started_at="2026-08-01T13:47:10.120Z",
            outcome=outcome,
            model="llama-3.3-70b",
            stream=True,
            input_tokens=1_211,
            output_tokens=214 if kind != "failed" else None,
            attempt=1 if kind != "failed" else 3,
            ttft_ms=parts[-1].start_ms if kind != "failed" else None,
            total_ms=total,
            parts=parts,
            remark=remark,
        )

    normal = (
        Part("connect", 0, 3, True),
        Part("wait for first token", 3, 390, True),
        Part("generate", 393, 4310, True),
    )
    slow = (
        Part("connect", 0, 4, True),
        Part("queue", 4, 21_800, False),
        Part("prefill", 21_804, 420, False),
        Part("generate", 22_224, 4460, True),
    )
    failed = (Part("connect", 0, 3, True), Part("wait for first token", 3, 29_997, True))
    return (
        CaseGroup(
            vantage="gateway",
            title="Three requests of about 1,200 tokens",
            cases=(
                one("normal", 4703, normal, "completed", None),
                one("slow", 26_684, slow, "completed", "45 other requests ran when it arrived."),
                one("failed", 30_000, failed, "timeout", "Given up at exactly 30 s, as 212 others."),
            ),
        ),
    )


def input_file(**changes: object) -> InputFile:
    """A gateway's log with a few bad lines."""
    plain = InputFile(
        path="logs/gateway.jsonl.gz",
        format="litellm",
        vantage="gateway",
        reason="98 of 100 lines fit, the next best 3",
        bytes=8_412_331,
        lines=20_011,
        rows=19_870,
        rejected=41,
        blank=3,
        foreign=97,
        doubled=0,
        out_of_order=12,
        longest_gap_ms=412_000.0,
        grew=False,
        note="field dur_s taken for total_ms (seconds)",
        bad_fields={"ttft_ms": 14},
        examples=((211, "not JSON", '{"ts":"2026-08-01T13:0'), (9_120, "no time", '{"id": 4}')),
    )
    return dataclasses.replace(plain, **changes)  # type: ignore[arg-type]  # test code: keys are checked at run time


def ordinary() -> Diagnosis:
    """An incident as it might really look."""
    retry = cause(
        id="nested_retries",
        title="Two layers retry the same call",
        layer="caller",
        symptom="retry_storm",
        subject="all",
        explains=("retry_storm",),
        confidence=0.41,
        rank=2,
        excess=900.0,
        excess_share=0.64,
        equal_to=("retry_without_backoff",),
        separate_by="log `attempt` in the client as well",
        fix=(Fix("OpenAI SDK", "Set `max_retries=0` where the gateway retries."),),
        evidence=(
            Evidence("Attempts per task pile up at 9 and 3", "for", {}),
            Evidence("The gaps between tries have two modes: 0.5 s and 8 s", "for", {}),
        ),
    )
    timeouts = symptom(
        id="client_timeouts",
        title="Clients give up before an answer comes",
        severity="high",
        subject="all",
        observed=0.061,
        expected=0.01,
        unit="share",
        affected=1_212,
        reason=None,
    )
    storm = symptom(
        id="retry_storm",
        title="Retries are a large part of the traffic",
        severity="medium",
        subject="all",
        observed=1.84,
        expected=1.3,
        unit="attempts per task",
        affected=2_020,
        first_at="2026-08-01T13:42:00Z",
        last_at="2026-08-01T14:10:00Z",
    )
    gap = symptom(
        id="log_gaps",
        title="The log has a hole",
        severity="low",
        subject="input=logs/gateway.jsonl.gz",
        observed=412_000.0,
        expected=60_000.0,
        affected=None,
        total=None,
        first_at="2026-08-01T14:30:00Z",
        last_at="2026-08-01T14:36:52Z",
    )
    blind = symptom(
        id="long_queue",
        state="unknown",
        title="Requests wait in the engine's queue",
        vantage=None,
        subject="all",
        observed=None,
        expected=None,
        affected=None,
        total=None,
        first_at=None,
        last_at=None,
        reason="field queue_ms is nowhere",
    )
    metric = Metric(
        "gateway", "llama-3.3-70b", True, "ttft_ms", 19_870, 212, 510.0, 9120.0, 24_310.0, 23_900.0, 25_020.0
    )
    return Diagnosis(
        command="llmdoctor analyze logs/gateway.jsonl.gz logs/client.log",
        version="0.1.0",
        verdict=Verdict(
            "unhealthy",
            "Requests to llama-3.3-70b waited up to 24.3 s for their first token from 13:40 to 14:04 UTC; a queue in"
            " front of the engine explains 71 % of it.",
            "llmdoctor analyze logs/ --only high_ttft --verbose",
        ),
        window_from="2026-08-01T13:00:00Z",
        window_to="2026-08-01T14:59:58Z",
        inputs=(
            input_file(),
            input_file(
                path="logs/client.log",
                format="jsonl",
                vantage="client",
                rejected=0,
                examples=(),
                lines=19_970,
                foreign=97,
                note=None,
                bad_fields={},
            ),
        ),
        metrics=(
            metric,
            dataclasses.replace(metric, name="total_ms", p50=4703.0, p95=18_200.0, p99=30_000.0, low=None, high=None),
            dataclasses.replace(metric, name="tpot_ms", p50=20.4, p95=31.0, p99=44.0, low=43.0, high=46.1, censored=0),
            dataclasses.replace(metric, model="qwen3-8b", n=64, p95=None, p99=None, p50=180.0, low=150.0, high=204.0),
        ),
        symptoms=(symptom(), timeouts, storm, gap, blind),
        causes=(cause(), retry),
        unexplained=(Unexplained("high_ttft", "model=llama-3.3-70b", 900_000.0, 0.29),),
        unknown=(
            MissingField(
                "queue_ms", ("long_queue", "queueing", "single_slot"), "vLLM: read `vllm:request_queue_time_seconds`"
            ),
            MissingField("task_id", ("stuck_tasks", "duplicate_work"), "send one `x-task-id` per user action"),
            MissingField("cached_tokens", ("cache_miss",), "log `usage.prompt_tokens_details.cached_tokens`"),
            MissingField("instance", ("uneven_instances", "bad_instance"), "log the upstream's address"),
        ),
        timeouts=(
            TimeoutAdvice(
                "gateway",
                "llama-3.3-70b",
                None,
                1000.0,
                8000.0,
                5000.0,
                45_000.0,
                16_458,
                "2 x P99.5 of the quiet part, rounded up",
                {"first_token_ms": 0.004, "total_ms": 0.0009},
                "the incident is left out; with it the first token would need 40 s",
            ),
        ),
        limits=(
            _advice("concurrency", 45.0, "calls", "Up to 45 calls at a time the typical one takes its quiet time"),
            _advice("max_tokens", 840.0, "tokens", "A cap of 840 cuts 2.27% of them, which hold 53.3% of all tokens"),
            _advice("without_retries", 25_400.0, "ms", "P99 of the whole call 25.4 s instead of 30 s", estimate=True),
        ),
        rules=RuleTally(
            ("high_ttft", "client_timeouts", "retry_storm", "log_gaps"),
            ("tail_latency", "errors", "empty_output"),
            ("long_queue", "stuck_tasks"),
            ("exposed_secrets",),
            (),
        ),
        cases=cases(),
        timeline=Timeline("gateway", 120_000.0, bins()),
        notes=("The client's clock runs 1.4 s ahead of the gateway's.",),
        settings={"profile": "chat", "high_ttft.limit_ms": "2000"},
        considered={"cache_miss": "absent: cached share is high", "overload": "explained away by queueing"},
        pictures=pictures(),
    )


def hostile() -> Diagnosis:
    """The ordinary one with every string from data replaced by something that tries to break out."""
    plain = ordinary()
    turn = iter(range(10_000))

    def bad() -> str:
        return HOSTILE[next(turn) % len(HOSTILE)]

    bad_symptoms = [
        symptom(
            id=f"s{number}",
            title=bad(),
            subject=f"tenant={text}",
            vantage=bad(),
            why=text,
            caveat=text,
            reason=text,
            unit="ms" if number % 2 else text,
            first_at=text if number % 3 == 0 else "2026-08-01T13:40:12Z",
        )
        for number, text in enumerate(HOSTILE)
    ]
    bad_causes = [
        cause(
            id=text,
            title=text,
            symptom=f"s{number}",
            subject=f"tenant={text}",
            layer=text,
            verify=text,
            caveat=text,
            evidence=tuple(Evidence(other, "for", {other[:40]: other}) for other in HOSTILE),
            fix=(
                Fix(text, text),
                Fix(text, "[click](javascript:alert(1)) [out](https://evil.example/) ![i](https://evil.example/)"),
            ),
            equal_to=(text,),
            separate_by=text,
            examples=(Example(text, text, 1),),
        )
        for number, text in enumerate(HOSTILE)
    ]
    bad_cases = tuple(
        CaseGroup(
            bad(),
            text,
            tuple(
                dataclasses.replace(
                    case,
                    outcome=text,
                    model=text,
                    remark=text,
                    started_at=text,
                    example=Example(text, text, None),
                    parts=(Part(text, 0, 10, True),),
                )
                for case in cases()[0].cases
            ),
        )
        for text in HOSTILE
    )
    return dataclasses.replace(
        plain,
        command=bad(),
        verdict=Verdict("unhealthy", " ".join(HOSTILE), HOSTILE[4]),
        inputs=tuple(
            input_file(
                path=text,
                format=text,
                vantage=text,
                reason=text,
                note=text,
                bad_fields={text: 1},
                examples=((1, text, text),),
            )
            for text in HOSTILE
        ),
        metrics=tuple(dataclasses.replace(plain.metrics[0], vantage=text, model=text, name=text) for text in HOSTILE),
        symptoms=tuple(bad_symptoms),
        causes=tuple(bad_causes),
        unknown=tuple(MissingField(text, HOSTILE, text) for text in HOSTILE),
        timeouts=tuple(
            dataclasses.replace(plain.timeouts[0], model=text, route=text, basis=text, warning=text) for text in HOSTILE
        ),
        limits=tuple(
            dataclasses.replace(one, kind=text, model=text, route=text, unit=text, text=text, basis=text)
            for one in plain.limits
            for text in HOSTILE
        ),
        rules=RuleTally(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE),
        cases=bad_cases,
        notes=HOSTILE,
        timeline=dataclasses.replace(plain.timeline, vantage=bad()),
        pictures=_bad_pictures(),
        settings={text: text for text in HOSTILE},
        considered={text: text for text in HOSTILE},
    )


def _bad_pictures() -> Pictures:
    plain = pictures()
    assert plain.instances is not None
    rows = tuple(dataclasses.replace(plain.instances.instances[0], instance=text) for text in HOSTILE)
    return dataclasses.replace(
        plain,
        distributions=tuple(
            dataclasses.replace(one, vantage=HOSTILE[1], model=HOSTILE[5]) for one in plain.distributions
        ),
        instances=dataclasses.replace(plain.instances, vantage=HOSTILE[0], instances=rows),
    )


def huge() -> Diagnosis:
    """Everything in thousands: 5,000 models, findings, causes with long sentences, 10,000 files."""
    plain = ordinary()
    words = "a sentence about <what> was measured & found, 東京 included; " * 12
    subjects = [f"model=model-{number}-{'x' * 200}" for number in range(5000)]
    heavy = tuple(Evidence(words, "for", {f"k{n}": words for n in range(4)}) for _ in range(12))
    return dataclasses.replace(
        plain,
        inputs=tuple(input_file(path=f"logs/{'deep/' * 40}{number}.jsonl") for number in range(10_000)),
        metrics=tuple(dataclasses.replace(plain.metrics[0], model=subject) for subject in subjects),
        symptoms=tuple(symptom(subject=subject, why=words, caveat=words) for subject in subjects),
        causes=tuple(
            cause(
                subject=subject,
                evidence=heavy,
                caveat=words * 9,
                verify=words * 9,
                fix=tuple(Fix(f"product {n}", words * 8) for n in range(12)),
            )
            for subject in subjects[:80]
        ),
        unexplained=tuple(Unexplained("high_ttft", subject, 1.0, 0.2) for subject in subjects),
        unknown=tuple(MissingField(f"field_{number}", tuple(subjects[:500]), words) for number in range(500)),
        timeouts=tuple(dataclasses.replace(plain.timeouts[0], model=subject) for subject in subjects),
        limits=tuple(dataclasses.replace(plain.limits[1], model=subject, text=words * 9) for subject in subjects),
        rules=RuleTally(*[tuple(f"rule_{number}_{'y' * 60}" for number in range(2000))] * 5),
        cases=tuple(CaseGroup("gateway", words, cases()[0].cases * 40) for _ in range(200)),
        timeline=Timeline("gateway", 1000.0, tuple(plain.timeline.bins[n % 60] for n in range(5000))),
        notes=tuple([words] * 500),
        settings=dict.fromkeys(subjects, words),
        considered=dict.fromkeys(subjects, words),
    )


def unknowing() -> Diagnosis:
    """None and nothing wherever the types allow it."""
    return Diagnosis(
        command="llmdoctor analyze -",
        version="0.1.0",
        verdict=Verdict("undetermined", "Nothing can be said about latency: no record holds a duration.", ""),
        window_from=None,
        window_to=None,
        inputs=(InputFile("-", None, None, "no format fits", 0, 0, 0, 0, 0, 0, 0, None, None, False, None, {}, ()),),
        metrics=(Metric("client", None, None, "total_ms", 3, 0, None, None, None, None, None),),
        symptoms=(
            symptom(
                vantage=None,
                subject="all",
                observed=None,
                expected=None,
                unit="",
                affected=None,
                total=None,
                first_at=None,
                last_at=None,
                why="",
                caveat="",
            ),
        ),
        causes=(
            cause(
                subject="all",
                excess=None,
                excess_share=None,
                evidence=(),
                fix=(),
                verify="",
                caveat="",
                examples=(),
                affected=0,
            ),
        ),
        unexplained=(),
        unknown=(),
        timeouts=(TimeoutAdvice("client", None, None, None, None, None, None, 3, "too few", {}, None),),
        rules=RuleTally((), (), (), (), ()),
        cases=(
            CaseGroup(
                "client",
                "One request",
                (
                    Case(
                        "failed",
                        Example(None, "-", None),
                        "client",
                        "",
                        "unknown",
                        None,
                        None,
                        None,
                        None,
                        None,
                        None,
                        None,
                        (),
                        None,
                    ),
                ),
            ),
        ),
        timeline=Timeline(None, 0.0, ()),
        notes=(),
        settings={},
    )


ALL = {"ordinary": ordinary, "hostile": hostile, "huge": huge, "unknowing": unknowing}
