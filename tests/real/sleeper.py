"""A scale-to-zero front as serverless platforms have one: starts LiteLLM and the model server on demand.

Both are stopped when nothing was asked for SLEEPER_IDLE_S seconds.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator

import httpx
from flask import Flask, Response, request

from tests.real.chain import LITELLM_READY, answers

app = Flask(__name__)
PASSED_ON = {"content-type", "x-request-id", "x-litellm-call-id"}
COMMANDS: list[list[str]] = json.loads(os.environ.get("SLEEPER_COMMANDS", "[]"))
PORT = int(os.environ.get("SLEEPER_PORT", "0"))
IDLE_S = float(os.environ.get("SLEEPER_IDLE_S", "4"))
START_WITHIN_S = 60.0


class Sleeper:
    """The servers while they are needed; at most one start at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.servers: list[subprocess.Popen[bytes]] = []
        self.running = 0
        self.used_at = time.monotonic()
        threading.Thread(target=self._stop_when_idle, daemon=True).start()

    def enter(self) -> None:
        """Count one request in; returns when the gateway answers."""
        with self.lock:
            self.running += 1
            if not self.servers:
                self.servers = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in COMMANDS]
            until = time.monotonic() + START_WITHIN_S
            while not answers(PORT, LITELLM_READY) and time.monotonic() < until:
                time.sleep(0.05)

    def leave(self) -> None:
        """Count one request out."""
        with self.lock:
            self.running -= 1
            self.used_at = time.monotonic()

    def _stop_when_idle(self) -> None:
        while True:
            time.sleep(0.2)
            with self.lock:
                if self.servers and not self.running and time.monotonic() - self.used_at > IDLE_S:
                    for server in self.servers:
                        server.send_signal(signal.SIGTERM)
                    for server in self.servers:
                        server.wait(timeout=20)
                    self.servers = []


sleeper = Sleeper()


@app.get("/health")
def health() -> str:
    """For the start of the chain: does not wake the server."""
    return "ok"


@app.post("/v1/chat/completions")
def chat() -> Response:
    """Wake the servers if they sleep, then pass the stream on as it comes."""
    body, sent = request.get_data(), dict(request.headers)

    def pieces() -> Iterator[bytes]:
        sleeper.enter()
        try:
            url = f"http://127.0.0.1:{PORT}/v1/chat/completions"
            headers = {name: value for name, value in sent.items() if name.lower() in PASSED_ON}
            with httpx.stream("POST", url, content=body, headers=headers, timeout=60) as answer:
                yield from answer.iter_raw()
        finally:
            sleeper.leave()

    return Response(pieces(), content_type="text/event-stream")
