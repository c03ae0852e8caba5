"""A small Flask app before the model server, as teams write one: streams on, or collects first (RELAY=collect)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import httpx
from flask import Flask, Response, request

app = Flask(__name__)
PASSED_ON = {"content-type", "x-request-id", "x-litellm-call-id"}
UPSTREAM = os.environ.get("RELAY_UPSTREAM", "")
COLLECT = os.environ.get("RELAY", "") == "collect"


@app.get("/health")
def health() -> str:
    """For the start of the chain."""
    return "ok"


@app.post("/v1/chat/completions")
def chat() -> Response:
    """Pass the call on; the answer has no X-Accel-Buffering and, under HTTP/1.0, no chunks."""
    body, sent = request.get_data(), dict(request.headers)

    def pieces() -> Iterator[bytes]:
        headers = {name: value for name, value in sent.items() if name.lower() in PASSED_ON}
        with httpx.stream("POST", f"{UPSTREAM}/chat/completions", content=body, headers=headers, timeout=60) as answer:
            if COLLECT:
                # As an app that checks the whole answer first: everything is read before anything is sent.
                yield from [event + b"\n\n" for event in answer.read().split(b"\n\n") if event]
            else:
                yield from answer.iter_raw()

    return Response(pieces(), content_type="text/event-stream")
