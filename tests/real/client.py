"""An application's client: the real openai SDK, with its own timeouts and retries, and a log of every HTTP attempt.

The log is written by a transport below the SDK, so that attempts which the SDK repeats on its own have a row each.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field

import httpx2
import openai

from tests.real.attempt import Ask, Attempt, Row

WORDS = ["the", "cat", "of", "our", "house", "saw", "no", "rain", "for", "two", "days", "and", "went", "out", "home"]


@dataclass
class Task:
    """What a user wanted once, however many attempts it takes."""

    caller: str
    task_id: str = field(default_factory=lambda: uuid.uuid4().hex[:10])
    attempts: int = 0


TASK: ContextVar[Task] = ContextVar("TASK")


class Watched(httpx2.AsyncByteStream):
    """The body of a response, noted as it passes."""

    def __init__(self, body: httpx2.AsyncByteStream, attempt: Attempt) -> None:
        self.body, self.attempt = body, attempt

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for data in self.body:
                self.attempt.feed(data)
                yield data
        except BaseException as error:
            self.attempt.close(error)
            raise
        self.attempt.close()

    async def aclose(self) -> None:
        await self.body.aclose()
        if self.attempt.ended_ms is None:
            self.attempt.close(asyncio.CancelledError())


class Log(httpx2.AsyncBaseTransport):
    """Sends requests and keeps one Attempt for each."""

    def __init__(self) -> None:
        self.inner = httpx2.AsyncHTTPTransport(limits=httpx2.Limits(max_connections=200))
        self.attempts: list[Attempt] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        task = TASK.get()
        task.attempts += 1
        request_id = uuid.uuid4().hex[:12]
        # LiteLLM keeps a caller's id as its own litellm_call_id; nginx logs the other one.
        request.headers["x-request-id"] = request.headers["x-litellm-call-id"] = request_id
        timeout = request.extensions.get("timeout", {}).get("read")
        body = json.loads(request.content)
        ask = Ask(request_id, task.task_id, task.attempts, task.caller, body, request.url.path, timeout)
        attempt = Attempt(ask)
        self.attempts.append(attempt)
        try:
            response = await self.inner.handle_async_request(request)
        except BaseException as error:
            attempt.close(error)
            raise
        attempt.headers(response.status_code, response.headers)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        watched = Watched(response.stream, attempt)
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=watched, extensions=response.extensions
        )

    async def aclose(self) -> None:
        await self.inner.aclose()

    def rows(self) -> list[Row]:
        """One row an attempt, by start."""
        return [attempt.row() for attempt in sorted(self.attempts, key=lambda attempt: attempt.started_at)]

    def chunk_rows(self, requests: int) -> list[Row]:
        """The timed events of the first `requests` streams that had any, with the keys of their attempts."""
        rows: list[Row] = []
        for attempt in [attempt for attempt in self.attempts if attempt.chunks][:requests]:
            key: Row = {"table": "chunks", "request_id": attempt.ask.request_id, "attempt": attempt.ask.attempt}
            rows += [key | chunk for chunk in attempt.chunks]
        return rows


@contextlib.asynccontextmanager
async def sdk(url: str, log: Log, timeout_s: float = 60.0, retries: int = 0) -> AsyncIterator[openai.AsyncOpenAI]:
    """The SDK as an application sets it up; `retries` is the SDK's own max_retries."""
    http = httpx2.AsyncClient(transport=log)
    async with openai.AsyncOpenAI(
        base_url=url, api_key="none", timeout=timeout_s, max_retries=retries, http_client=http
    ) as client:
        yield client


def prompt(least: int, most: int) -> str:
    """A prompt of `least` to `most` words, about 4 tokens each in the small model's vocabulary."""
    return " ".join(random.choices(WORDS, k=random.randint(least, most)))


async def chat(client: openai.AsyncOpenAI, model: str, prompt: str, max_tokens: int, stream: bool = True) -> bool:
    """One chat completion; false when the SDK raised. The text is dropped."""
    try:
        if not stream:
            await client.chat.completions.create(
                model=model, messages=[{"role": "user", "content": prompt}], max_tokens=max_tokens
            )
            return True
        answer = await client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=max_tokens,
            stream=True,
            stream_options={"include_usage": True},
        )
        async for _ in answer:
            pass
    except (openai.OpenAIError, httpx2.HTTPError):
        return False
    return True


async def task(caller: str, work: Callable[[], Awaitable[bool]], tries: int = 1, wait_s: float = 0.0) -> bool:
    """Run `work` as one task, up to `tries` times, `wait_s` apart: the loop that applications write around the SDK."""
    TASK.set(Task(caller))
    for left in reversed(range(tries)):
        if await work():
            return True
        if left:
            await asyncio.sleep(wait_s)
    return False
