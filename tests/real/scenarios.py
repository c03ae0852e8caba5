"""The scenarios: one chain each, one load each, one thing wrong (or nothing)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import openai

from tests.real.attempt import Row
from tests.real.chain import MODEL, Chain, free_port, model_command
from tests.real.client import Log, chat, prompt, sdk, task
from tests.real.load import outages, sampled, users, waves

STREAMING = "proxy_buffering off;"
Start = Callable[[str], Awaitable[bool]]


@dataclass(frozen=True)
class Scenario:
    """`run` puts its attempts into the log and returns the engine's samples, if it took any."""

    run: Callable[[Chain, Log], Awaitable[list[Row]]]
    how: str
    cause: str | None = None
    symptoms: tuple[str, ...] = ()
    homemade: bool = False  # the client log is a team's own application log, not the native one
    chunk_streams: int = 0  # how many streams have their chunks logged


def asks(client: openai.AsyncOpenAI, words: tuple[int, int], tokens: tuple[int, int], model: str = MODEL) -> Start:
    """A task: one streamed chat of random size within the bounds."""

    def start(caller: str) -> Awaitable[bool]:
        text, most = prompt(*words), random.randint(*tokens)
        return task(caller, lambda: chat(client, model, text, most))

    return start


async def healthy(chain: Chain, log: Log) -> list[Row]:
    """Three users, four slots, nothing in the way."""
    model = chain.model(slots=4)
    samples: list[Row] = []
    async with sdk(chain.nginx(model.port, STREAMING).url, log) as client, sampled(model, samples):
        await users(3, 14, asks(client, (5, 40), (20, 120)), (0.2, 0.8))
    return samples


async def healthy_gateway(chain: Chain, log: Log) -> list[Row]:
    """Two users behind LiteLLM; streams and plain calls in turn."""
    gateway = chain.litellm(chain.model(slots=4).port)
    async with sdk(gateway.url, log) as client:

        def start(caller: str) -> Awaitable[bool]:
            text, most, stream = prompt(5, 40), random.randint(20, 100), random.random() < 0.6
            return task(caller, lambda: chat(client, "chat", text, most, stream))

        await users(2, 14, start, (0.2, 0.8))
    return []


async def queueing(chain: Chain, log: Log) -> list[Row]:
    """One user, then fourteen at once, on two slots; prompts and answers of the same sizes throughout."""
    model = chain.model(slots=2)
    samples: list[Row] = []
    async with sdk(chain.nginx(model.port, STREAMING).url, log) as client, sampled(model, samples):
        start = asks(client, (10, 20), (60, 90))
        await users(1, 12, start, (0.1, 0.3))
        await users(14, 3, start, (0.0, 0.3))
        await users(1, 6, start, (0.1, 0.3))
    return samples


async def client_timeout_short(chain: Chain, log: Log) -> list[Row]:
    """Plain calls of 40 to 300 tokens, first with a minute's patience, then with what half of those would have met.

    The SDK makes its own two retries. The abandoned calls go on inside: their log lines come when they end.
    """
    gateway = chain.litellm(chain.model(slots=8).port)
    async with sdk(gateway.url, log) as patient:
        await users(3, 5, plain_asks(patient), (0.2, 0.6))
    spans = sorted(attempt.ended_ms or 0.0 for attempt in log.attempts)
    timeout_s = round(spans[len(spans) // 2] / 1000, 1)
    async with sdk(gateway.url, log, timeout_s=timeout_s, retries=2) as client:
        await users(3, 7, plain_asks(client), (0.2, 0.6))
        await asyncio.sleep(8)
    return []


def plain_asks(client: openai.AsyncOpenAI) -> Start:
    """A task: one chat without streaming, of 40 to 300 tokens."""

    def start(caller: str) -> Awaitable[bool]:
        text, most = prompt(5, 15), random.randint(40, 300)
        return task(caller, lambda: chat(client, "chat", text, most, stream=False))

    return start


async def retry_without_backoff(chain: Chain, log: Log) -> list[Row]:
    """Jobs of seven calls every 2.5 s: fewer than the limit on average, but each refusal is repeated at once."""
    front = chain.nginx(
        chain.model(slots=4).port,
        STREAMING + "limit_req zone=calls burst=2 nodelay; limit_req_status 429;",
        http="limit_req_zone $server_addr zone=calls:1m rate=4r/s;",
    )
    async with sdk(front.url, log) as client:

        def start(caller: str) -> Awaitable[bool]:
            text = prompt(5, 20)
            return task(caller, lambda: chat(client, MODEL, text, 30), tries=5)

        await waves(4, 7, 2.5, start)
    return []


async def rate_limiting(chain: Chain, log: Log) -> list[Row]:
    """Six users want more than two calls a second; nginx refuses with Retry-After, the SDK waits and repeats."""
    front = chain.nginx(
        chain.model(slots=4).port,
        STREAMING + "limit_req zone=calls burst=2 nodelay; limit_req_status 429; error_page 429 @limited;",
        http="limit_req_zone $server_addr zone=calls:1m rate=2r/s;",
        server='location @limited { add_header Retry-After 1 always; return 429 "rate limit"; }',
    )
    async with sdk(front.url, log, retries=3) as client:
        await users(6, 6, asks(client, (5, 20), (20, 50)), (0.1, 0.4))
    return []


async def proxy_buffering(chain: Chain, log: Log) -> list[Row]:
    """nginx as installed before a Flask app that streams without chunks: tokens come by the proxy's buffer."""
    model = chain.model(slots=4)
    relay = chain.app("relay", RELAY_UPSTREAM=model.url)
    async with sdk(chain.nginx(relay.port).url, log) as client:
        await users(2, 13, asks(client, (5, 25), (90, 150)), (0.1, 0.4))
    return []


async def fake_streaming(chain: Chain, log: Log) -> list[Row]:
    """A Flask app collects the whole answer and then sends it as a stream; nginx does not hold anything back."""
    model = chain.model(slots=4)
    relay = chain.app("relay", RELAY_UPSTREAM=model.url, RELAY="collect")
    async with sdk(chain.nginx(relay.port, STREAMING).url, log) as client:
        await users(2, 16, asks(client, (5, 25), (20, 160)), (0.1, 0.4))
    return []


async def server_errors(chain: Chain, log: Log) -> list[Row]:
    """The model server is killed three times and comes back after some two seconds; nobody retries."""
    model = chain.model(slots=4)
    async with sdk(chain.nginx(model.port, STREAMING).url, log) as client:
        crashes = asyncio.create_task(outages(model, after_s=5, down_s=1.2, count=3, every_s=5))
        await users(4, 22, asks(client, (5, 25), (20, 80)), (0.4, 0.8))
        await crashes
    return []


async def nested_retries(chain: Chain, log: Log) -> list[Row]:
    """The SDK tries 3 times, the application's loop around it 3 times: 9 attempts a task while the server is down."""
    model = chain.model(slots=4)
    async with sdk(chain.nginx(model.port, STREAMING).url, log, retries=2) as client:

        def start(caller: str) -> Awaitable[bool]:
            text, most = prompt(5, 25), random.randint(20, 50)
            return task(caller, lambda: chat(client, MODEL, text, most), tries=3, wait_s=2.0)

        crash = asyncio.create_task(outages(model, after_s=8.5, down_s=11, count=1, every_s=0))
        await waves(24, 1, 1.0, start)
        await crash
    return []


async def cold_start(chain: Chain, log: Log) -> list[Row]:
    """A scale-to-zero front stops gateway and model after eight idle seconds; the next call pays for their start."""
    model_port, gateway_port = free_port(), free_port()
    gateway, environment = chain.litellm_command(gateway_port, model_port)
    environment |= {
        "SLEEPER_COMMANDS": json.dumps([model_command(model_port, slots=2), gateway]),
        "SLEEPER_PORT": str(gateway_port),
        "SLEEPER_IDLE_S": "8",
    }
    sleeper = chain.app("sleeper", **environment)
    async with sdk(chain.nginx(sleeper.port, STREAMING + "proxy_http_version 1.1;").url, log) as client:
        for calls in (6, 7, 6, 7, 6):
            await users(1, calls, asks(client, (5, 20), (20, 60), "chat"), (0.1, 0.5))
            await asyncio.sleep(random.uniform(10.5, 12))
    return []


ENGINE, SDK = "dasllama 0.6.6, random weights", "openai SDK 3.57.0"
NGINX, LITELLM, FLASK = "nginx 1.22 (Debian 12)", "LiteLLM 1.108.7", "Flask 3.1.3 under gunicorn 23"

SCENARIOS = {
    "healthy": Scenario(
        healthy, f"{SDK} -> {NGINX}, proxy_buffering off -> {ENGINE}: 3 users on 4 slots", chunk_streams=2
    ),
    "healthy_gateway": Scenario(
        healthy_gateway,
        f"{SDK} -> {LITELLM} -> {ENGINE}: 2 users on 4 slots, streams and plain calls; an application's own client log",
        homemade=True,
    ),
    "queueing": Scenario(
        queueing,
        f"{SDK} -> {NGINX}, proxy_buffering off -> {ENGINE}: 1 user, then 14 at once, then 1, on 2 slots",
        "queueing",
        ("high_ttft",),
    ),
    "client_timeout_short": Scenario(
        client_timeout_short,
        f"{SDK}, timeout lowered to the median of the first answers -> {LITELLM} -> {ENGINE}: abandoned calls go on",
        "client_timeout_short",
        ("client_timeouts", "timeout_success_mismatch"),
    ),
    "retry_without_backoff": Scenario(
        retry_without_backoff,
        f"{SDK} in a loop of 5 tries without a pause -> {NGINX}, limit_req 4r/s -> {ENGINE}: 7 calls every 2.5 s",
        "retry_without_backoff",
        ("retry_storm", "rate_limited"),
    ),
    "rate_limiting": Scenario(
        rate_limiting,
        f"{SDK} with 3 retries -> {NGINX}, limit_req 2r/s, 429 with Retry-After -> {ENGINE}: 6 users",
        "rate_limiting",
        ("rate_limited",),
    ),
    "proxy_buffering": Scenario(
        proxy_buffering,
        f"{SDK} -> {NGINX}, as installed -> {FLASK} -> {ENGINE}: 2 users",
        "proxy_buffering",
        ("burst_delivery",),
        chunk_streams=3,
    ),
    "fake_streaming": Scenario(
        fake_streaming,
        f"{SDK} -> {NGINX}, proxy_buffering off -> {FLASK}, which collects the answer -> {ENGINE}: 2 users",
        "fake_streaming",
        ("burst_delivery",),
        chunk_streams=1,
    ),
    "server_errors": Scenario(
        server_errors,
        f"{SDK} without retries -> {NGINX} -> {ENGINE}, killed 3 times for 1.2 s each; an application's own client log",
        "server_errors",
        ("errors",),
        homemade=True,
    ),
    "nested_retries": Scenario(
        nested_retries,
        f"{SDK} with 2 retries in an application loop of 3 -> {NGINX} -> {ENGINE}, which is down for 11 s",
        "nested_retries",
        ("retry_storm", "errors"),
    ),
    "cold_start": Scenario(
        cold_start,
        f"{SDK} -> {NGINX} -> a scale-to-zero front in {FLASK} -> {LITELLM} -> {ENGINE}, stopped after 8 idle seconds",
        "cold_start",
        ("high_ttft",),
    ),
}
