"""The second half of `make demo`: a stand-in model server, a small relay that holds its stream back, and the probe."""

import subprocess
import sys

from llmdoctor.probe.canary import Settings, canary
from llmdoctor.probe.holding import Hold
from llmdoctor.probe.relay import relay

PATH = "/v1/chat/completions"


def main() -> int:
    """Probes the relay and, directly, the server behind it. Returns the probe's exit code."""
    with canary(settings=Settings(first_ms=150, gap_ms=10)) as server, relay(server.url, Hold.parse("whole")) as proxy:
        words = ["probe", proxy.url + PATH, "--direct", server.url + PATH, "-o", "demo-probe.html"]
        print(f"\n$ llmdoctor {' '.join(words)}\n", flush=True)
        return subprocess.run([sys.executable, "-m", "llmdoctor", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
