"""Shapes of load for the scenarios: each returns when all its tasks have ended."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

import httpx2

from tests.real.attempt import Row
from tests.real.chain import MODEL, Part


async def users(count: int, each: int, start: Callable[[str], Awaitable[bool]], pause_s: tuple[float, float]) -> None:
    """`count` users at once, each with `each` tasks one after the other and a random pause between."""

    async def one(name: str) -> None:
        await asyncio.sleep(random.uniform(*pause_s))
        for _ in range(each):
            await asyncio.create_task(asyncio.wait_for(start(name), 240))
            await asyncio.sleep(random.uniform(*pause_s))

    await asyncio.gather(*(one(f"user-{number}") for number in range(count)))


async def waves(count: int, size: int, every_s: float, start: Callable[[str], Awaitable[bool]]) -> None:
    """`size` tasks in one instant, `count` times, as a scheduled job sends them."""
    running: list[asyncio.Task[bool]] = []
    for _ in range(count):
        running += [asyncio.create_task(asyncio.wait_for(start(f"job-{number}"), 120)) for number in range(size)]
        await asyncio.sleep(every_s)
    await asyncio.gather(*running)


@contextlib.asynccontextmanager
async def sampled(model: Part, rows: list[Row], every_s: float = 1.0) -> AsyncIterator[None]:
    """While the block runs, add what the server says of its queue (/v1/stats) to `rows`, as engine_samples."""
    url = f"http://127.0.0.1:{model.port}/v1/stats"

    async def watch() -> None:
        async with httpx2.AsyncClient(timeout=5) as http:
            while True:
                at = datetime.now(UTC).isoformat(timespec="milliseconds")
                with contextlib.suppress(httpx2.HTTPError):
                    stats = (await http.get(url)).json()
                    for name, key in (("running", "active"), ("waiting", "queued")):
                        row: Row = {"table": "engine_samples", "at": at, "instance": "model-0", "model": MODEL}
                        rows.append(row | {"name": name, "value": stats[key]})
                await asyncio.sleep(every_s)

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


async def outages(model: Part, after_s: float, down_s: float, count: int, every_s: float) -> None:
    """Kill the model server `count` times, as the out-of-memory killer does; start it again after `down_s`."""
    await asyncio.sleep(after_s)
    for number in range(count):
        await asyncio.to_thread(model.kill)
        await asyncio.sleep(down_s)
        await asyncio.to_thread(model.start)
        if number + 1 < count:
            await asyncio.sleep(every_s)
