"""The command `probe`: is this stream live, held back or faked, and by which hop?"""
# ruff: noqa: PLC0415  `llmdoctor --help` must not wait for httpx or DuckDB: they are imported where they are used.

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from llmdoctor import cli_target, settings
from llmdoctor.cli_output import put
from llmdoctor.errors import InputError, InterruptError, UsageError
from llmdoctor.report import files

if TYPE_CHECKING:
    from llmdoctor.diagnose import Diagnosis
    from llmdoctor.probe.asking import Target
    from llmdoctor.probe.plan import Hop, Plan
    from llmdoctor.probe.trace import Trace

_OUTPUTS = ("output", "json", "md", "jira", "save", "quiet", "verbose", "fail_on")


class _Seconds(click.FloatRange):
    """A number of seconds: `nan` is outside of every range, which comparisons do not tell."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        return self.fail(f"{value} is not a number of seconds.", param, ctx) if isnan(number) else number


_SECONDS = _Seconds(0.001, 86400)


@click.command()
@click.argument("url")
@click.option("--direct", metavar="URL|HOST:PORT", help="The application itself, past all proxies.")
@click.option(
    "--hop", "hops", multiple=True, metavar="NAME=URL", help="A place between; from the application outwards."
)
@click.option("--resolve", multiple=True, metavar="HOST:PORT:ADDR", help="Take this address for a name.")
@click.option("--protocol", metavar="NAME", help="API dialect; else told by the path and the first answer.")
@click.option(
    "--custom",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of your own protocol: text, reasoning, finish = JSON paths such as $.data.text; text_event, error_event = "
    "names of events; terminal = what ends an answer; framing = sse or ndjson. --body is then the request, with "
    "{prompt}, {model}, {max_tokens} and {stream} filled in.",
)
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
    hops = cli_target.places(url, given["direct"], given["hops"])
    target = cli_target.target(hops, given)
    wanted = _planned(hops, given)
    if given["dry_run"]:
        _tell(hops, target, wanted)
        return 0
    diagnosis, whole = _probed(target, wanted, url, given)
    cli.put_out(diagnosis, chosen)
    return cli.ending(diagnosis, chosen) if whole else InterruptError.exit_code


def _planned(hops: Sequence["Hop"], given: dict[str, Any]) -> "Plan":
    from llmdoctor.probe.plan import plan

    if given["quick"] and given["lasting"]:
        raise UsageError("--quick and --long: choose one")
    secure = urlsplit(hops[-1].url).scheme == "https"
    return plan(hops, given["repeat"], given["budget"], 8000, given["quick"], given["lasting"], secure)


def _tell(hops: Sequence["Hop"], target: "Target", wanted: "Plan") -> None:
    """What would be sent: hosts, requests, one body; the key only as a yes or no."""
    from llmdoctor.probe.asking import body

    for hop in hops:
        via = f" (connects to {hop.connect_to})" if hop.connect_to else ""
        put(f"{hop.name}: {cli_target.bare(hop.url)}{via}, dialect {target.speaks(hop.url)}")
    first = "one request" if len(hops) == 1 else f"{len(hops)} requests"
    put(f"key: {'sent' if target.key else 'none'}; {first} that does not count, then")
    put(f"{wanted.requests} request{'s' * (wanted.requests != 1)}, at most {wanted.tokens:,} output tokens:")
    for step in wanted.steps:
        beside = f" with {step.beside} beside it" if step.beside else ""
        put(f"  {step.hop.name:<10} {step.variant:<8} {step.max_tokens} tokens{beside}")
    if wanted.dropped:
        put(f"left out for the budget: {', '.join(wanted.dropped)}")
    put(f"body of the first: {json.dumps(body(target, wanted.steps[0]))}")


def _probed(target: "Target", wanted: "Plan", url: str, given: dict[str, Any]) -> tuple["Diagnosis", bool]:
    """Sends, writes the trace, and diagnoses it like any other log; False where Ctrl-C came before the last request."""
    from llmdoctor.probe.trace import rows

    traces, notes, whole = _sent(target, wanted, given)
    if not traces:
        raise InterruptError("interrupted before the first answer was there: nothing was measured")
    if all(trace.exchange.ending == "dns" for trace in traces):
        raise InputError(f"{urlsplit(url).hostname}: no hop has an address; check the names, or give --resolve")
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for trace in traces for row in rows(trace))
    for secret in cli_target.sent_secrets(target):
        text = text.replace(json.dumps(secret)[1:-1], "…")  # servers quote what they refuse
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
    from llmdoctor.probe.asking import with_model
    from llmdoctor.probe.run import run

    looked_at = sys.stderr.isatty() and not given["quiet"] and os.environ.get("TERM") != "dumb"
    hops = list(dict.fromkeys(step.hop.name for step in wanted.steps))
    traces: list[Trace] = []
    dropped: list[str] = []
    notes: list[str] = []
    try:
        target = with_model(target, wanted.steps[0].hop)
        with Live(hops, wanted.requests, looked_at) as live:
            for trace in run(target, wanted, live.seen if looked_at else None, dropped.extend):
                traces.append(trace)
                live.done += 1
    except KeyboardInterrupt:
        notes.append(f"Interrupted after {len(traces)} of {wanted.requests} requests: this is what they showed.")
        return traces, notes, False
    notes += _same_places(wanted, traces) + _other_dialects(target, wanted, traces)
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


def _other_dialects(target: "Target", wanted: "Plan", traces: Sequence["Trace"]) -> list[str]:
    """A note where a place answers in another dialect than its path is known for."""
    asked = {step.hop.name: target.speaks(step.hop.url) for step in wanted.steps}
    read = dict.fromkeys((one.ask.hop, one.dialect) for one in traces if one.dialect not in ("", asked[one.ask.hop]))
    return [
        f"{hop} was asked as {asked[hop]} and answers as {dialect}: it is read so (--protocol names another)."
        for hop, dialect in read
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
    words = ["llmdoctor", "probe", cli_target.bare(url)]
    if direct := given["direct"]:
        words += ["--direct", cli_target.bare(direct) if "://" in direct else direct]
    for option, value in (
        *(
            ("--hop", f"{name}={cli_target.bare(place)}")
            for name, _, place in (hop.partition("=") for hop in given["hops"])
        ),
        *(("--resolve", text) for text in given["resolve"]),
        *(("--custom", text) for text in given["custom"]),
        *((f"--{name}", given[name]) for name in ("protocol", "model", "save")),
        ("--body", given["body_file"]),
        ("--key-env", given["key_env"]),
    ):
        words += [option, value] if value else []
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
