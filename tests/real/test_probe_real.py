"""The probe before real proxies and applications, each in a healthy and a faulty configuration: the verdict, the place
and the cause must be right, and the healthy ones stay unaccused.

The model server is the canary (150 ms to the first token, 5 ms between tokens), so that only the part under test
differs; at the end a real one. One probe at a time: they measure time. Set PROBE_TRACES to a folder to keep the traces.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from llmdoctor.probe.canary import Settings, canary
from tests.real import proxies as real
from tests.real.chain import MODEL, ROOT, Chain
from tests.real.proxies import COMPRESSOR, LUA_BODY

pytestmark = pytest.mark.live

PROBE_WITHIN_S = 90.0
TRIES = 3  # a probe that calls its own machine too busy is asked again, as it says
PACE = Settings(tokens=1000, first_ms=150, gap_ms=5)
SLOWER = replace(PACE, gap_ms=10)  # where lumps are looked at: several in one answer, far enough apart

QUICK = ("--quick", "--repeat", "2")
# The budget drops what the decision does not need: 4 streams, 4 short ones, 2 with a browser's Accept-Encoding ...
ENCODED = ("--repeat", "2", "--budget", "10")
LENGTHS = ("--repeat", "2", "--budget", "12")  # ... and a long one over each hop
ALL = ("--repeat", "2")

LUMPS = ("proxy_buffering",)
WHOLE = ("full_body_buffering",)
# An observer cannot tell a proxy that collects all answers from one whose buffer is larger than them.
WHOLE_OR_LARGE = ("full_body_buffering", "proxy_buffering")
PACKED = ("compression_buffering",)
WAITS = ("nagle_delay",)  # HAProxy 2.6 asks the kernel to wait for more, up to 200 ms
SLOWED = ("rate_shaping",)
BEHIND = ("one_event_behind",)
FAKED = ("fake_streaming",)
# A blocked loop and a sync worker look the same: nothing else is answered while a stream runs.
BLOCKED = ("event_loop_stall", "serialised_app")

Report = dict[str, Any]  # as `--json` writes it
Build = Callable[[Chain, int], int]
"""Starts parts before the port of the model server; returns the port that people call."""


@dataclass(frozen=True)
class Case:
    """One configuration. `causes`: which may stand first, any of them; none = healthy. `hop`: where it must be found.
    `settings`: of the canary. `app`: the part is
    the application itself, so `direct` is its own port and the public one an nginx before it, sound but for `front`.
    `alone`: one address is probed, as the innermost place only is asked two things at once."""

    name: str
    build: Build
    causes: tuple[str, ...] = ()
    options: tuple[str, ...] = QUICK
    hop: str = "public"
    settings: Settings = PACE
    app: bool = False
    alone: bool = False
    front: str = "proxy_http_version 1.1; proxy_buffering off;"


def nginx(location: str = "", http: str = "") -> Build:
    """nginx with further lines."""
    return lambda chain, model: chain.nginx(model, location, http).port


HTTP11 = 'proxy_http_version 1.1; proxy_set_header Connection "";'
GZIP = f"{HTTP11} gzip on; gzip_types text/event-stream; gzip_proxied any; gzip_min_length 0;"
SIXTEEN = "proxy_buffer_size 16k; proxy_buffers 8 16k;"
STEADY = replace(PACE, gap_ms=20)
LASTS = replace(PACE, gap_ms=25)  # 96 tokens take more than two seconds
QUIET = replace(SLOWER, accel=True)
CLOSING = replace(SLOWER, close=True)
PASSED_THROUGH_CAT = 'ExtFilterDefine hold mode=output cmd="/bin/cat"'


def two_nginx(chain: Chain, model: int) -> int:
    """Two nginx in a row: the inner one obeys X-Accel-Buffering and takes it out."""
    work = chain.work / "inner"
    work.mkdir()
    inner = Chain(work)
    chain.parts.append(inner.nginx(model))
    return chain.nginx(chain.parts[-1].port).port


PROXIES = (
    Case("nginx_buffering_off", nginx("proxy_buffering off;")),
    Case("nginx_buffering_on_chunked", nginx(HTTP11)),
    Case("nginx_with_a_quick_model", nginx(HTTP11), settings=replace(PACE, gap_ms=2)),
    Case("nginx_with_heartbeats", nginx(HTTP11), settings=replace(PACE, first_ms=800, heartbeat_ms=100)),
    Case("nginx_told_by_the_app", nginx(), settings=QUIET),
    Case("nginx_default", nginx(), LUMPS, settings=SLOWER),
    Case("nginx_default_closing_upstream", nginx(HTTP11), LUMPS, settings=CLOSING),
    Case("nginx_16k", nginx(SIXTEEN), LUMPS, LENGTHS),
    Case("nginx_gzip", nginx(GZIP), PACKED, ENCODED),
    Case("nginx_gzip_buffering_off", nginx(GZIP + "proxy_buffering off;"), (), ENCODED),
    Case("nginx_twice", two_nginx, ("inner_hop_consumes_header", *LUMPS), settings=QUIET),
    Case("haproxy_no_delay", lambda c, m: real.haproxy(c, m, "option http-no-delay").port),
    Case("haproxy_default", lambda c, m: real.haproxy(c, m).port, WAITS, settings=SLOWER),
    Case("apache_deflate", lambda c, m: real.apache(c, m, "SetOutputFilter DEFLATE").port, (), ENCODED),
    Case(
        "apache_ext_filter",
        lambda c, m: real.apache(c, m, "SetOutputFilter hold", PASSED_THROUGH_CAT).port,
        LUMPS,
        settings=SLOWER,
    ),
    Case(
        "apache_ratelimit",
        lambda c, m: real.apache(c, m, "SetOutputFilter RATE_LIMIT\n    SetEnv rate-limit 8").port,
        SLOWED,
        settings=SLOWER,
    ),
    Case("nginx_limit_rate", nginx(HTTP11 + "proxy_limit_rate 8k;"), SLOWED, settings=SLOWER),
    Case(
        "apache_sed",
        lambda c, m: real.apache(c, m, 'SetOutputFilter Sed\n    OutputSed "s/never/ever/"').port,
        BEHIND,
        settings=STEADY,
    ),
    Case("varnish_streaming", lambda c, m: real.varnish(c, m, "set beresp.do_stream = true;").port),
    Case("varnish_gzip", lambda c, m: real.varnish(c, m, "set beresp.do_gzip = true;").port, WHOLE_OR_LARGE),
    Case("varnish_collecting", lambda c, m: real.varnish(c, m, "set beresp.do_stream = false;").port, WHOLE, LENGTHS),
    Case("lighttpd_streaming", lambda c, m: real.lighttpd(c, m, "server.stream-response-body = 2").port),
    Case("lighttpd_default", lambda c, m: real.lighttpd(c, m).port, WHOLE_OR_LARGE),
    Case("caddy", lambda c, m: real.caddy(c, m, site="encode gzip").port, (), ENCODED),
    Case("caddy_response_buffers", lambda c, m: real.caddy(c, m, "response_buffers unlimited").port, WHOLE_OR_LARGE),
    Case("traefik", lambda c, m: real.traefik(c, m, "compress").port, (), ENCODED),
    Case("traefik_buffering", lambda c, m: real.traefik(c, m, "buffering").port, WHOLE_OR_LARGE),
    Case("envoy", lambda c, m: real.envoy(c, m, COMPRESSOR).port, (), ENCODED),
    Case("envoy_lua_body", lambda c, m: real.envoy(c, m, LUA_BODY).port, WHOLE_OR_LARGE),
    Case("express", lambda c, m: real.express(c, m, compress=False).port),
    Case("express_compression", lambda c, m: real.express(c, m, compress=True).port, PACKED, ENCODED),
)


def app(**environment: str) -> Build:
    """The FastAPI app in one of its ways."""
    return lambda chain, model: real.uvicorn(chain, model, "starlette", **environment).port


def django(**environment: str) -> Build:
    """The Django app in one of its ways."""
    return lambda chain, model: real.uvicorn(chain, model, "django", **environment).port


APPS = (
    Case("fastapi", app(APP="live"), (), ALL, app=True),
    Case("fastapi_gzip", app(APP="live", GZIP="yes"), (), ENCODED, app=True),
    Case("fastapi_collects", app(APP="collect"), FAKED, LENGTHS, "direct", app=True),
    Case("fastapi_collects_and_paces", app(APP="paced"), FAKED, LENGTHS, "direct", app=True),
    Case("fastapi_answers_json", app(APP="json"), ("not_streaming",), QUICK, "direct", app=True),
    Case("fastapi_blocks_its_loop", app(APP="blocking"), BLOCKED, ALL, "127.0.0.1", alone=True),
    Case("fastapi_collects_with_tools", app(APP="tools"), ("tools_buffering",), ALL, "direct", app=True),
    Case("django_async", django(DJANGO="async"), app=True),
    Case("django_sync_iterator", django(DJANGO="sync"), FAKED, LENGTHS, "direct", app=True),
    Case("django_gzip", django(DJANGO="async", GZIP="yes"), ("multi_member_gzip",), ENCODED, "direct", app=True),
    Case("fastapi_behind_nginx", app(APP="live"), LUMPS, settings=SLOWER, app=True, front=""),
    Case("flask_threads", lambda c, m: real.gunicorn(c, m, 8).port, app=True),
    Case("flask_get_data", lambda c, m: real.gunicorn(c, m, 8, FLASK="body").port, FAKED, LENGTHS, "direct", app=True),
    Case("flask_sync_worker", lambda c, m: real.gunicorn(c, m, 1).port, BLOCKED, ALL, "127.0.0.1", alone=True),
)


def probed(folder: Path, name: str, *words: str) -> Report:
    """The report of one probe; fails the test where the probe itself fails, or finds its machine too busy each time."""
    for _ in range(TRIES):
        found = probed_once(folder, name, *words)
        if "cannot be believed" not in found["verdict"]["text"]:
            return found
    pytest.fail(found["verdict"]["text"])


def probed_once(folder: Path, name: str, *words: str) -> Report:
    """The report of one probe."""
    kept = os.environ.get("PROBE_TRACES")
    trace = Path(kept) / f"{name}.jsonl" if kept else folder / "trace.jsonl"
    command = [sys.executable, "-m", "llmdoctor", "probe", *words, "--save", str(trace), "--json", "-", "-q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PROBE_WITHIN_S)
    assert done.returncode == 0, done.stderr
    found: Report = json.loads(done.stdout)
    return found


def judge(found: Report, causes: tuple[str, ...], hop: str) -> None:
    """Healthy: nothing is present. Faulty: something is present at that hop, with one of the causes first."""
    present = [one for one in found["symptoms"] if one["state"] == "present"]
    where = {f"{one['id']} {one['subject']}" for one in present}
    first = [(one["id"], one.get("subject"), one["confidence"]) for one in found["causes"]][:3]
    if not causes:
        assert where == set(), first
        return
    assert any(one.endswith((f"hop={hop}", f" at {hop}")) for one in where), (where, first)
    assert first, f"no cause for {where}"
    assert first[0][0] in causes, first


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    """Parts that end with the test."""
    with Chain(tmp_path) as parts:
        yield parts


@pytest.mark.parametrize("case", [*PROXIES, *APPS], ids=lambda case: case.name)
def test_what_a_real_part_does_to_a_stream_is_found(case: Case, chain: Chain, tmp_path: Path) -> None:
    with canary(settings=case.settings) as model:
        inner, outer = model.port, case.build(chain, model.port)
        if case.app:
            inner, outer = outer, chain.nginx(outer, case.front).port
        url = f"http://127.0.0.1:{outer}/v1/chat/completions"
        direct = () if case.alone else ("--direct", f"127.0.0.1:{inner}")
        found = probed(tmp_path, case.name, url, *direct, "--model", "canary", *case.options)
    judge(found, case.causes, case.hop)


@pytest.mark.parametrize(
    ("name", "build", "causes", "options"),
    [
        ("one_url_live", nginx("proxy_buffering off;"), (), QUICK),
        ("one_url_held_back", nginx(), LUMPS, QUICK),
        # From outside, an application that computes first and a proxy that collects are the same.
        ("one_url_faked", app(APP="collect"), (*FAKED, *WHOLE), LENGTHS),
    ],
)
def test_one_address_is_enough_to_see_it(
    name: str, build: Build, causes: tuple[str, ...], options: tuple[str, ...], chain: Chain, tmp_path: Path
) -> None:
    with canary(settings=PACE) as model:
        url = f"http://127.0.0.1:{build(chain, model.port)}/v1/chat/completions"
        found = probed(tmp_path, name, url, "--model", "canary", *options)
    judge(found, causes, "127.0.0.1")


def test_litellm_streams(chain: Chain, tmp_path: Path) -> None:
    with canary(settings=SLOWER) as model:
        url = f"{chain.litellm(model.port).url}/chat/completions"
        found = probed(tmp_path, "litellm", url, "--direct", f"127.0.0.1:{model.port}", "--model", "chat", *QUICK)
    judge(found, (), "public")


@pytest.mark.parametrize(
    ("name", "build", "causes"),
    [
        # It answers in chunks even where nginx asks in HTTP/1.0, so nginx hands on each token although it buffers.
        ("model_nginx", nginx(), ()),
        ("model_flask_nginx", lambda c, m: c.nginx(real.gunicorn(c, m, 8).port).port, LUMPS),
    ],
)
def test_a_real_model_server(name: str, build: Build, causes: tuple[str, ...], chain: Chain, tmp_path: Path) -> None:
    model = chain.model(slots=4)
    url = f"http://127.0.0.1:{build(chain, model.port)}/v1/chat/completions"
    found = probed(tmp_path, name, url, "--direct", f"127.0.0.1:{model.port}", "--model", MODEL, *QUICK)
    judge(found, causes, "public")


@pytest.mark.parametrize(
    ("name", "build", "settings", "symptom", "causes"),
    [
        (
            "nginx_before_envoy",  # nginx asks in HTTP/1.0, which Envoy answers with 426
            lambda c, m: c.nginx(real.envoy(c, m).port).port,
            PACE,
            "errors",
            ("upgrade_refused",),
        ),
        (
            "haproxy_gives_up",
            lambda c, m: real.haproxy(c, m, "option http-no-delay", "timeout server 1s").port,
            replace(PACE, first_ms=1500),
            "incomplete_streams",
            ("idle_timeout_cut",),
        ),
        (
            "nginx_gives_up",
            nginx("proxy_buffering off; proxy_read_timeout 1s;"),
            replace(PACE, first_ms=1500),
            "incomplete_streams",
            ("idle_timeout_cut",),
        ),
        (
            "envoy_route_timeout",
            lambda c, m: real.envoy(c, m, timeout="1.5s").port,
            LASTS,
            "incomplete_streams",
            ("deadline_cut",),
        ),
    ],
)
def test_a_proxy_that_refuses_or_cuts_is_found(
    name: str,
    build: Build,
    settings: Settings,
    symptom: str,
    causes: tuple[str, ...],
    chain: Chain,
    tmp_path: Path,
) -> None:
    with canary(settings=settings) as model:
        url = f"http://127.0.0.1:{build(chain, model.port)}/v1/chat/completions"
        found = probed(tmp_path, name, url, "--direct", f"127.0.0.1:{model.port}", "--model", "canary", "--quick")
    judge(found, causes, "public")
    assert symptom in {one["id"] for one in found["symptoms"] if one["state"] == "present"}
