"""Start and stop the parts of a chain on loopback ports: model server, LiteLLM, nginx, small apps.

    with Chain(work) as chain:
        model = chain.model(slots=2)
        front = chain.nginx(model.port, "proxy_buffering off;")

Every part is ready when its method returns, and is killed when the block ends, also on errors.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOLS = ROOT / ".venv-real" / "bin"
MODEL_FILE = ROOT / ".venv-real" / "model" / "small.gguf"
MODEL = "small.gguf"  # the id under which the server offers the file
READY_WITHIN_S = 60.0
LITELLM_READY = "/health/liveliness"


def model_command(port: int, slots: int) -> list[str]:
    """How the model server starts: `slots` answers at a time, on one thread (some 200 tokens a second)."""
    options = ["-m", str(MODEL_FILE), "-p", str(port), "-s", str(slots), "-t", "1", "--ctx", "1024"]
    return [str(TOOLS / "dasllama-server"), *options]


class PartFailedError(RuntimeError):
    """A part ended or did not answer in time; the message carries the end of its output."""


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Part:
    """One running process and the port on which it answers."""

    name: str
    port: int
    command: list[str]
    ready_path: str
    output: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where a client of the OpenAI API points to."""
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> Part:
        """Start the process and wait until it answers; raises PartFailedError."""
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, **self.environment},
                process_group=0,
            )
        until = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise PartFailedError(f"{self.name} ended with {self.process.returncode}: {self.last_words()}")
            if answers(self.port, self.ready_path):
                return self
            time.sleep(0.05)
        self.kill()
        raise PartFailedError(f"{self.name} did not answer within {READY_WITHIN_S:.0f} s: {self.last_words()}")

    def kill(self) -> None:
        """Kill the process and its children at once, as the out-of-memory killer does."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=10)
            self.process = None

    def last_words(self) -> str:
        """The last lines that the process printed."""
        return self.output.read_text(errors="replace")[-600:]


def answers(port: int, path: str) -> bool:
    """Whether an HTTP server on `port` answers `path` with 200; an empty path asks only for an open port."""
    try:
        if not path:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return True
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


class Chain:
    """The parts of one scenario; `work` holds their configuration and logs and must exist."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.parts: list[Part] = []

    def __enter__(self) -> Chain:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for part in reversed(self.parts):
            part.kill()

    def check(self) -> None:
        """Raise PartFailedError when a part has died, or no longer answers, on its own."""
        for part in self.parts:
            if part.process is None:
                continue
            if part.process.poll() is not None or not answers(part.port, part.ready_path):
                raise PartFailedError(f"{part.name} failed (exit {part.process.returncode}): {part.last_words()}")

    def model(self, slots: int) -> Part:
        """The model server: generates `slots` answers at a time, queues the others."""
        port = free_port()
        return self.start("model", port, model_command(port, slots), "/v1/models")

    def app(self, module: str, **environment: str) -> Part:
        """A Flask app of this folder under gunicorn with threads (a common way to deploy one)."""
        port = free_port()
        options = ["-k", "gthread", "--threads", "32", "--bind", f"127.0.0.1:{port}"]
        command = [str(TOOLS / "python"), "-m", "gunicorn", *options, f"tests.real.{module}:app"]
        return self.start(module, port, command, "/health", **environment)

    def nginx(self, upstream: int, location: str = "", http: str = "", server: str = "") -> Part:
        """nginx before the port `upstream`; further directives for the three levels. Log: work/nginx.log."""
        port = free_port()
        config = (HERE / "nginx.conf").read_text()
        words = {"WORK": str(self.work), "PORT": str(port), "UPSTREAM": str(upstream)}
        words |= {"LOCATION": location, "HTTP": http, "SERVER": server}
        for word, value in words.items():
            config = config.replace(f"@{word}@", value)
        path = self.work / "nginx.conf"
        path.write_text(config)
        binary = shutil.which("nginx") or "/usr/sbin/nginx"
        return self.start("nginx", port, [binary, "-c", str(path), "-e", str(self.work / "nginx-error.log")], "")

    def litellm(self, upstream: int) -> Part:
        """The LiteLLM proxy before the model server. Log: work/litellm.jsonl (see litellm_log.py)."""
        port = free_port()
        command, environment = self.litellm_command(port, upstream)
        return self.start("litellm", port, command, LITELLM_READY, **environment)

    def litellm_command(self, port: int, upstream: int) -> tuple[list[str], dict[str, str]]:
        """Write LiteLLM's configuration; returns how it starts and in which environment."""
        shutil.copy(HERE / "litellm_log.py", self.work)
        config = (HERE / "litellm.yaml").read_text().replace("@UPSTREAM@", str(upstream)).replace("@MODEL@", MODEL)
        path = self.work / "litellm.yaml"
        path.write_text(config)
        environment = {
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_LOG_FILE": str(self.work / "litellm.jsonl"),
        }
        return [str(TOOLS / "litellm"), "--config", str(path), "--host", "127.0.0.1", "--port", str(port)], environment

    def start(self, name: str, port: int, command: list[str], ready_path: str, **environment: str) -> Part:
        """Start any part and wait until it answers `ready_path`; raises PartFailedError."""
        output = self.work / f"{name}.out"
        part = Part(name, port, command, ready_path, output, {"PYTHONDONTWRITEBYTECODE": "1", **environment})
        self.parts.append(part)
        return part.start()
