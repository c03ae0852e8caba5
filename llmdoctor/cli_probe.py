"""The command `probe`: is this stream live, held back or faked, and by which hop?"""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for httpx or DuckDB: they are imported where they are used.

import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import click

from llmdoctor import settings
from llmdoctor.cli_output import put
from llmdoctor.errors import InputError, InterruptError, UsageError
from llmdoctor.report import files

if TYPE_CHECKING:
    from llmdoctor.diagnose import Diagnosis
    from llmdoctor.probe.plan import Hop, Plan
    from llmdoctor.probe.run import Target
    from llmdoctor.probe.trace import Trace

_OUTPUTS = ("output", "json", "md", "jira", "save", "quiet", "verbose", "fail_on")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2
_HEADER_VALUE = re.compile(r"[\x20-\x7e\t]*")


class _Seconds(click.FloatRange):
    """A number of seconds: `nan` is outside of every range, which comparisons do not tell."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        return self.fail(f"{value} is not a number of seconds.", param, ctx) if isnan(number) else number


_SECONDS = _Seconds(0.001, 86400)
_MOST_S, _MOST_LASTING_S = 180.0, 600.0
_READ_BYTES = 8 << 20
"""Of one answer: ten times what the longest of ours takes with all that servers put around a token."""


@click.command()
@click.argument("url")
@click.option("--direct", metavar="URL|HOST:PORT", help="The application itself, past all proxies.")
@click.option(
    "--hop", "hops", multiple=True, metavar="NAME=URL", help="A place between; from the application outwards."
)
@click.option("--resolve", multiple=True, metavar="HOST:PORT:ADDR", help="Take this address for a name.")
@click.option("--protocol", metavar="NAME", help="API dialect; else told by the path.")
@click.option("--model", metavar="M", default="", help="Model to ask for; else the first that /v1/models lists.")
@click.option("--body", "body_file", metavar="FILE", help="JSON of your own request instead of ours.")
@click.option("--key-env", metavar="VAR", help="Environment variable that holds the key.")
@click.option("--ask-key", is_flag=True, help="Ask for the key, without showing it.")
@click.option("--header", "headers", multiple=True, metavar="K:V", help="A further request header.")
@click.option("--insecure", is_flag=True, help="Do not check certificates; the report says so.")
@click.option("--save", metavar="FILE", help="Keep the trace: a log that 'analyze' reads.")
@click.option("--quick", is_flag=True, help="Streams only.")
@click.option("--long", "lasting", is_flag=True, help="Also answers that last for minutes, to find cuts.")
@click.option("--repeat", default=3, show_default=True, type=click.IntRange(1, 20), help="Streams over each hop.")
@click.option("--budget", default=30, show_default=True, type=click.IntRange(1), help="Most requests.")
@click.option("--connect-timeout", default=10.0, show_default=True, type=_SECONDS, metavar="S")
@click.option("--first-token-timeout", default=120.0, show_default=True, type=_SECONDS, metavar="S")
@click.option("--idle-timeout", default=60.0, show_default=True, type=_SECONDS, metavar="S")
@click.option("--total-timeout", type=_SECONDS, metavar="S", help="[default: 180; 600 with --long]")
@click.option("--dry-run", is_flag=True, help="Print what would be sent, and send nothing.")
@click.option("-o", "--output", metavar="FILE", help="Write the HTML report.")
@click.option("--json", metavar="FILE", help="Write the diagnosis as JSON.")
@click.option("--md", metavar="FILE", help="Write the text for a ticket (Markdown).")
@click.option("--jira", metavar="FILE", help="Write the text for a ticket (Jira).")
@click.option("--fail-on", type=click.Choice(settings.LEVELS), help="Exit with 1 where a finding is at least this bad.")
@click.option("-q", "--quiet", is_flag=True, help="Print the verdict only.")
@click.option("-v", "--verbose", is_flag=True, help="Print all evidence and how every rule ended.")
def probe(url: str, **given: Any) -> int:
    """Say whether a stream is live, held back by a proxy, or faked by the application, and which hop does it.

    URL is the public address of the model API. With --direct the same is asked of the application itself. The key is
    sent to the hosts named here and to no others; it is never written anywhere.
    """
    from llmdoctor import cli

    chosen = settings.merged(settings.Settings(), given, [name for name in _OUTPUTS if given[name]])
    cli.check(chosen)
    hops = _hops(url, given["direct"], given["hops"])
    target = _target(hops, given)
    wanted = _planned(hops, given)
    if given["dry_run"]:
        _tell(hops, target, wanted)
        return 0
    diagnosis, whole = _probed(target, wanted, url, given)
    cli.put_out(diagnosis, chosen)
    return cli.ending(diagnosis, chosen) if whole else InterruptError.exit_code


def _hops(url: str, direct: str | None, named: Sequence[str]) -> list["Hop"]:
    """From the application outwards; the URL itself is the last, `public` where there are others."""
    from llmdoctor.probe.plan import Hop

    _check_url("URL", url)
    found: list[Hop] = []
    if direct:
        found.append(_direct(url, direct))
    for text in named:
        name, equals, place = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--hop {text}: write it as NAME=URL, as in gateway=http://10.0.0.5:4000")
        _check_url("--hop", place)
        found.append(Hop(name.strip(), _with_path(place, url)))
    found.append(Hop("public" if found else urlsplit(url).hostname or "public", url))
    if len({hop.name for hop in found}) < len(found):
        raise UsageError("--hop: two hops have the same name; 'direct' and 'public' are taken")
    return found


def _direct(url: str, direct: str) -> "Hop":
    from llmdoctor.probe.plan import Hop

    if "://" in direct:
        _check_url("--direct", direct)
        return Hop("direct", _with_path(direct, url))
    host, colon, port = direct.rpartition(":")
    if not colon or not host or not port.isdigit():
        raise UsageError(f"--direct {direct}: write it as HOST:PORT, or as a whole URL")
    return Hop("direct", url, connect_to=direct)


def _check_url(option: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"{option} {url}: is no http or https URL, as in https://llm.example.com/v1/chat/completions")


def _with_path(place: str, url: str) -> str:
    """The address with the path of the public URL where it has none of its own."""
    parts, outer = urlsplit(place), urlsplit(url)
    path = outer.path if parts.path in ("", "/") else parts.path
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query or outer.query, ""))


def _target(hops: Sequence["Hop"], given: dict[str, Any]) -> "Target":
    from llmdoctor.probe.exchange import Limits
    from llmdoctor.probe.protocols import detect, load, names
    from llmdoctor.probe.run import Target

    name = given["protocol"] or detect(hops[-1].url) or "openai_chat"
    if name not in names():
        raise UsageError(f"--protocol {name}: there are {', '.join(names())}")
    limits = Limits(
        given["connect_timeout"],
        given["first_token_timeout"],
        given["idle_timeout"],
        given["total_timeout"] or (_MOST_LASTING_S if given["lasting"] else _MOST_S),
        read_bytes=_READ_BYTES,
    )
    return Target(
        name,
        given["model"],
        _key(given, load(name).KEY_ENV),
        tuple(_header(text) for text in given["headers"]),
        _body(given["body_file"]),
        limits,
        tuple(_resolved(text) for text in given["resolve"]),
        not given["insecure"],
    )


def _key(given: dict[str, Any], usual: Sequence[str]) -> str:
    """The key, without the line end that `$(cat key)` and editors leave behind it."""
    wanted = given["key_env"]
    if given["ask_key"]:
        name, key = "--ask-key", str(click.prompt("Key", hide_input=True, err=True))
    else:
        name = next((one for one in ([wanted] if wanted else usual) if os.environ.get(one, "").strip()), "")
        key = os.environ.get(name, "")
        if wanted is not None and not name:
            raise UsageError(f"--key-env {wanted}: that environment variable is not set; set it, or use --ask-key")
    if not _HEADER_VALUE.fullmatch(key.strip()):
        raise UsageError(f"{name}: the key in it holds a line break or a character that is not ASCII; look at it again")
    return key.strip()


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not _HEADER_NAME.fullmatch(name.strip()):
        raise UsageError("--header: write it as NAME:VALUE, as in 'X-Team: search'")
    if not _HEADER_VALUE.fullmatch(value.strip()):
        raise UsageError(f"--header {name.strip()}: its value may hold plain ASCII characters only, on one line")
    return name.strip(), value.strip()


def _resolved(text: str) -> tuple[str, int, str]:
    host, port, address = ([*text.split(":", 2), "", ""])[:3]
    if not host or not port.isdigit() or not address:
        raise UsageError(f"--resolve {text}: write it as HOST:PORT:ADDRESS, as in llm.example.com:443:10.0.0.5")
    return host, int(port), address.strip("[]")


def _body(path: str | None) -> dict[str, Any] | None:
    if path is None:
        return None
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--body {path}: cannot be read as JSON ({type(error).__name__})") from error
    if not isinstance(found, dict):
        raise UsageError(f"--body {path}: must be one JSON object, as it is sent to the model")
    return found


def _planned(hops: Sequence["Hop"], given: dict[str, Any]) -> "Plan":
    from llmdoctor.probe.plan import plan

    if given["quick"] and given["lasting"]:
        raise UsageError("--quick and --long: choose one")
    secure = urlsplit(hops[-1].url).scheme == "https"
    return plan(hops, given["repeat"], given["budget"], 8000, given["quick"], given["lasting"], secure)


def _tell(hops: Sequence["Hop"], target: "Target", wanted: "Plan") -> None:
    """What would be sent: hosts, requests, one body; the key only as a yes or no."""
    from llmdoctor.probe.protocols import load
    from llmdoctor.probe.run import body

    for hop in hops:
        via = f" (connects to {hop.connect_to})" if hop.connect_to else ""
        put(f"{hop.name}: {_bare(hop.url)}{via}")
    first = "one request" if len(hops) == 1 else f"{len(hops)} requests"
    put(f"dialect {target.dialect}; key: {'sent' if target.key else 'none'}; {first} that does not count, then")
    put(f"{wanted.requests} requests, at most {wanted.tokens:,} output tokens:")
    for step in wanted.steps:
        beside = f" with {step.beside} beside it" if step.beside else ""
        put(f"  {step.hop.name:<10} {step.variant:<8} {step.max_tokens} tokens{beside}")
    if wanted.dropped:
        put(f"left out for the budget: {', '.join(wanted.dropped)}")
    put(f"body of the first: {json.dumps(body(target, wanted.steps[0], load(target.dialect)))}")


def _bare(url: str) -> str:
    """Without user, query and fragment, which may hold keys."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _probed(target: "Target", wanted: "Plan", url: str, given: dict[str, Any]) -> tuple["Diagnosis", bool]:
    """Sends, writes the trace, and diagnoses it like any other log; False where Ctrl-C came before the last request."""
    from llmdoctor.probe.trace import rows

    traces, notes, whole = _sent(target, wanted, given)
    if not traces:
        raise InterruptError("interrupted before the first answer was there: nothing was measured")
    if all(trace.exchange.ending == "dns" for trace in traces):
        raise InputError(f"{urlsplit(url).hostname}: no hop has an address; check the names, or give --resolve")
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for trace in traces for row in rows(trace))
    if given["save"]:
        files.write(given["save"], text)
        return _diagnosed(given["save"], url, given, notes), whole
    with tempfile.TemporaryDirectory(prefix="llmdoctor-") as folder:
        path = Path(folder) / "trace.jsonl"
        path.write_text(text, encoding="utf-8")
        return _diagnosed(str(path), url, given, notes), whole


def _sent(target: "Target", wanted: "Plan", given: dict[str, Any]) -> tuple[list["Trace"], list[str], bool]:
    """What came of each request, what is to be said of the whole, and whether it went to its end."""
    from llmdoctor.cli_live import Live
    from llmdoctor.probe.run import run, with_model

    looked_at = sys.stderr.isatty() and not given["quiet"] and os.environ.get("TERM") != "dumb"
    hops = list(dict.fromkeys(step.hop.name for step in wanted.steps))
    traces: list[Trace] = []
    dropped: list[str] = []
    notes: list[str] = []
    try:
        target = with_model(target, wanted.steps[0])
        with Live(hops, wanted.requests, looked_at) as live:
            for trace in run(target, wanted, live.seen if looked_at else None, dropped.extend):
                traces.append(trace)
                live.done += 1
    except KeyboardInterrupt:
        notes.append(f"Interrupted after {len(traces)} of {wanted.requests} requests: this is what they showed.")
        return traces, notes, False
    notes += _same_places(wanted, traces)
    if dropped:
        notes.append(f"Not looked at, for the budget of requests or time: {', '.join(dropped)}.")
    return traces, notes, True


def _same_places(wanted: "Plan", traces: Sequence["Trace"]) -> list[str]:
    """A note where two hops are one: the same URL at the same address."""
    urls = {step.hop.name: step.hop.url for step in wanted.steps}
    names: dict[tuple[str, str], dict[str, None]] = {}
    for trace in traces:
        if (address := trace.exchange.address) is not None:
            names.setdefault((urls[trace.ask.hop], address), {})[trace.ask.hop] = None
    return [
        f"{' and '.join(same)} are one and the same place, {address}: nothing that lies between them was looked at."
        for (_, address), same in names.items()
        if len(same) > 1
    ]


def _diagnosed(path: str, url: str, given: dict[str, Any], said: Sequence[str]) -> "Diagnosis":
    from llmdoctor.diagnose import Options, diagnose
    from llmdoctor.ingest import ReadOptions, read
    from llmdoctor.report.privacy import hidden
    from llmdoctor.rulebook import load
    from llmdoctor.store import Store

    with Store() as store:
        store.create()
        notes = list(read(store, [path], ReadOptions(format="llmdoctor")))
        store.run("update inputs set path = ?", [given["save"] or "trace"])
        notes += said
        if given["insecure"]:
            notes.append("--insecure: certificates were not checked.")
        notes += _environment(url)
        found = diagnose(store, load(), Options(_command(url, given), tuple(notes), verbose=given["verbose"]))
    return hidden(found, False)


def _environment(url: str) -> list[str]:
    from llmdoctor.probe.client import environment_proxy

    name = environment_proxy(url)
    return [f"{name} is set and was not followed: the probe goes to the host itself."] if name else []


def _command(url: str, given: dict[str, Any]) -> str:
    """The command line again, without headers, keys and queries."""
    words = ["llmdoctor", "probe", _bare(url)]
    if direct := given["direct"]:
        words += ["--direct", _bare(direct) if "://" in direct else direct]
    for name in ("protocol", "model", "save"):
        words += [f"--{name}", given[name]] if given[name] else []
    for name, _, place in (hop.partition("=") for hop in given["hops"]):
        words += ["--hop", f"{name}={_bare(place)}"]
    words += ["--quick"] * given["quick"] + ["--long"] * given["lasting"] + ["--insecure"] * given["insecure"]
    return shlex.join(words)


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8100, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one.")
@click.option("--tokens", default=100, show_default=True, type=click.IntRange(1), help="Length of an answer.")
@click.option("--first-ms", default=200.0, show_default=True, help="Until the first token.")
@click.option("--gap-ms", default=20.0, show_default=True, help="Between tokens.")
@click.option("--heartbeat-ms", default=0.0, show_default=True, help="A comment this often while nothing is sent.")
@click.option(
    "--relay", "upstream", metavar="URL", help="Instead: a relay in front of URL that holds streams back or cuts them."
)
@click.option(
    "--hold",
    default="whole",
    show_default=True,
    metavar="HOW",
    help="whole, none, behind, 16k, 250ms, 4k/s, deadline=5s, idle=2s.",
)
def canary(host: str, port: int, upstream: str | None, hold: str, **given: Any) -> None:
    """Run the reference server: a stream of known pace, to put behind a proxy under test.

    It answers like a chat completions API, needs no model and says nothing of what it was asked.
    """
    from llmdoctor.probe.canary import Settings
    from llmdoctor.probe.canary import canary as serve
    from llmdoctor.probe.holding import Hold
    from llmdoctor.probe.relay import relay

    try:
        server = relay(upstream, Hold.parse(hold), host, port) if upstream else serve(host, port, Settings(**given))
    except ValueError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"--port {port}: cannot listen there ({error.strerror}): choose another") from error
    with server:
        put(f"{server.url}/v1/chat/completions\nEnd with Ctrl-C.")
        server.wait()
