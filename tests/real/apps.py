"""Small applications before the model server, as teams write them: some stream, some only seem to.

    uvicorn tests.real.apps:starlette      APP = live | collect | paced | json | blocking | tools, and GZIP=yes
    uvicorn tests.real.apps:django         DJANGO = async | sync, and GZIP=yes
    gunicorn tests.real.apps:flask         FLASK = live | body

APP_UPSTREAM is the address of the model server, with /v1.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator

import httpx
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import path
from fastapi import FastAPI, Request, Response
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import JSONResponse, StreamingResponse
from flask import Flask
from flask import Response as FlaskResponse
from flask import request as flask_request

UPSTREAM = os.environ.get("APP_UPSTREAM", "")
APP = os.environ.get("APP", "live")
CHAT = f"{UPSTREAM}/chat/completions"
EVENTS = "text/event-stream"


async def _live(body: bytes) -> AsyncIterator[bytes]:
    async with httpx.AsyncClient(timeout=60) as client, client.stream("POST", CHAT, content=body) as answer:
        async for piece in answer.aiter_raw():
            yield piece


async def _collected(body: bytes) -> list[bytes]:
    """All events of the answer, once the last is there."""
    return [event + b"\n\n" for event in b"".join([one async for one in _live(body)]).split(b"\n\n") if event]


async def _replayed(body: bytes, pause_s: float) -> AsyncIterator[bytes]:
    """Looks like a stream and is none: everything is computed first."""
    for event in await _collected(body):
        yield event
        if pause_s:
            await asyncio.sleep(pause_s)


async def _blocking(body: bytes) -> AsyncIterator[bytes]:
    """A synchronous client in an asynchronous application: nothing else runs meanwhile."""
    with httpx.stream("POST", CHAT, content=body, timeout=60) as answer:
        for piece in answer.iter_raw():
            yield piece


starlette = FastAPI()
if os.environ.get("GZIP") == "yes":
    starlette.add_middleware(GZipMiddleware, minimum_size=1)


@starlette.get("/v1/models")
async def models() -> JSONResponse:
    """For the start of the chain, and a request that costs nothing."""
    return JSONResponse({"object": "list", "data": [{"id": "canary", "object": "model", "owned_by": "x"}]})


@starlette.post("/v1/chat/completions")
async def chat(request: Request) -> Response:
    """As APP says."""
    body = await request.body()
    asked = json.loads(body)
    if not asked.get("stream") or APP == "json":
        whole = json.dumps({**asked, "stream": False, "stream_options": None})
        async with httpx.AsyncClient(timeout=60) as client:
            return JSONResponse((await client.post(CHAT, content=whole)).json())
    if APP == "collect" or (APP == "tools" and asked.get("tools")):
        return StreamingResponse(_replayed(body, 0), media_type=EVENTS)
    if APP == "paced":
        return StreamingResponse(_replayed(body, 0.004), media_type=EVENTS)
    return StreamingResponse(_blocking(body) if APP == "blocking" else _live(body), media_type=EVENTS)


flask = Flask(__name__)


def _pieces(body: bytes) -> Iterator[bytes]:
    with httpx.stream("POST", CHAT, content=body, timeout=60) as answer:
        yield from answer.iter_raw()


@flask.get("/v1/models")
def flask_models() -> FlaskResponse:
    """As above."""
    return FlaskResponse('{"object": "list", "data": [{"id": "canary"}]}', content_type="application/json")


@flask.post("/v1/chat/completions")
def flask_chat() -> FlaskResponse:
    """The stream; a call without `stream` is passed on whole."""
    body = flask_request.get_data()
    if not json.loads(body).get("stream"):
        return FlaskResponse(httpx.post(CHAT, content=body, timeout=60).content, content_type="application/json")
    return FlaskResponse(_pieces(body), content_type=EVENTS)


if os.environ.get("FLASK") == "body":

    @flask.after_request
    def log_length(response: FlaskResponse) -> FlaskResponse:
        """As an access log with the length of each answer: asking for it reads the whole stream."""
        flask.logger.info("%d bytes", len(response.get_data()))
        return response


def django_models(_: HttpRequest) -> HttpResponse:
    """As above."""
    return HttpResponse('{"object": "list", "data": [{"id": "canary"}]}', content_type="application/json")


def django_chat(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Under ASGI Django collects what a synchronous iterator gives; an asynchronous one is sent as it comes."""
    body = request.body
    if not json.loads(body).get("stream"):
        return HttpResponse(httpx.post(CHAT, content=body, timeout=60).content, content_type="application/json")
    pieces = _pieces(body) if os.environ.get("DJANGO") == "sync" else _live(body)
    return StreamingHttpResponse(pieces, content_type=EVENTS)


urlpatterns = [path("v1/models", django_models), path("v1/chat/completions", django_chat)]

if os.environ.get("DJANGO"):
    middleware = ["django.middleware.gzip.GZipMiddleware"] if os.environ.get("GZIP") == "yes" else []
    settings.configure(
        DEBUG=False, ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY=str(time.time()), MIDDLEWARE=middleware
    )
    django = get_asgi_application()
