"""What only a probe has: a client whose own lateness is known, and products that name themselves in headers."""

import re
from collections.abc import Mapping
from importlib import resources

from llmdoctor.pages import read_page
from llmdoctor.probe.trace import LAG_MS
from llmdoctor.store import Store

_ADVICE = {
    400: ": it does not take this request (look at --protocol, --model and --body)",
    401: ": the key is missing or refused (--key-env names the variable that holds it)",
    403: ": the key is refused, or somebody in between forbids this call",
    404: ": no such path or model (look at the path of the URL, --protocol and --model)",
    405: ": no API of this kind at this path (look at the path of the URL and --protocol)",
    422: ": it does not take this request (look at --protocol, --model and --body)",
    500: ": the application itself fails (look at its log)",
    502: ": what stands in front gets no good answer from the application (look at the log of both)",
    503: ": it has no free or no ready application (look at its health checks and at its load)",
    504: ": what stands in front has waited too long for the application (look at the log of both)",
}

# Words of Server and Via, as they are written, and the product in whose name its fix stands.
_SPELT = {
    "microsoftiis": "iis",
    "openresty": "nginx",
    "tengine": "nginx",
    "awselb": "alb",
    "uvicorn": "fastapi",
    "hypercorn": "fastapi",
    "werkzeug": "flask",
    "wsgiserver": "django",
    "tomcat": "spring",
    "jetty": "spring",
    "istio": "envoy",
    "next": "nextjs",
}


def distrust(store: Store) -> str | None:
    """Why the times of this probe cannot be believed; None where they can, or where there is no probe.

    It rests on how late the client was while each request ran (`loop_lag_ms`) and on the time between two pieces at the
    innermost place: whoever stamps later than half of that sees lumps that are his own. One of three requests of a kind
    may be so: the others outvote it."""
    kinds = store.run(
        """
        with pace as (
            select quantile_disc(case when spread_ms >= chunks then spread_ms else total_ms end / (chunks - 1), 0.5)
                   as gap_ms
            from   probes
            where  place = 1 and variant = 'stream' and chunks >= 2
        ), late as (
            select a.hop, a.variant, try_cast(f.value as double) as lag_ms,
                   try_cast(f.value as double) > greatest(?, coalesce(p.gap_ms / 2, 0)) as lagged, p.gap_ms
            from   facts f
            join   attempts a on a.attempt_id = f.attempt_id
            cross  join pace p
            where  f.name = 'loop_lag_ms' and a.vantage = 'probe' and a.stream
        )
        select count(*) filter (where lagged), count(*), max(lag_ms), max(gap_ms) from late group by hop, variant
        """,
        [LAG_MS],
    )
    if not any(3 * lagged > n for lagged, n, _, _ in kinds):
        return None
    lagged, asked = sum(one[0] for one in kinds), sum(one[1] for one in kinds)
    most, gap = max(one[2] for one in kinds), kinds[0][3]
    pace = f", and the pieces of the stream follow each other every {gap:.0f} ms" if gap is not None else ""
    return f"the client stamped up to {most:.0f} ms late in {lagged} of {asked} requests{pace}"


def endings(store: Store) -> Mapping[str, str]:
    """By subject (`hop=...`): how the calls of that place failed that did not come whole, most of them alike, in a few
    words. Places without such calls are not in it."""
    rows = store.run(
        """
        select a.hop, a.http_status, f.value, a.retry_after_ms, count(*) as n
        from   attempts a
        left   join facts f on f.attempt_id = a.attempt_id and f.name = 'ending'
        where  a.vantage = 'probe' and a.hop is not null and a.operation is distinct from 'probe'
        and    a.outcome in ('failed', 'timeout', 'incomplete', 'rate_limited', 'empty')
        group  by 1, 2, 3, 4
        order  by n desc, 2 nulls last, 3 nulls last, 4 nulls last
        """
    )
    found: dict[str, str] = {}
    for hop, status, told, retry_after_ms, _ in rows:
        if sentence := _ending(status, told, retry_after_ms):
            found.setdefault(f"hop={hop}", sentence)
    return found


def _ending(status: int | None, told: str | None, retry_after_ms: float | None) -> str | None:
    if status is None or status < 300 or status in (301, 302, 303, 307, 308):
        return told
    if told is not None:
        return f"{told}{_ADVICE.get(status, '')}"
    asks = f" and asks to wait {retry_after_ms / 1000:.0f} s" if retry_after_ms is not None else ""
    return f"it answers {status}{asks}{_ADVICE.get(status, '')}"


def products(store: Store) -> Mapping[str, tuple[str, ...]]:
    """Words for the products on the way by subject: `all` = of the formats that were read, `hop=...` = of the headers
    in which this place differs from the one inside."""
    found: dict[str, tuple[str, ...]] = {"all": _of_formats(store)}
    inside: set[str] = set()
    seen: dict[str, set[str]] = {}
    for hop, value in store.run(
        "select h.hop, f.value from hops h left join attempts a on a.hop = h.hop and a.vantage = 'probe'"
        " left join facts f on f.attempt_id = a.attempt_id and f.name in ('server', 'via')"
        " group by h.place, h.hop, f.value order by h.place, f.value"
    ):
        seen.setdefault(hop, set()).update(_words(value or ""))
    for hop, words in seen.items():
        found[f"hop={hop}"] = tuple(sorted(words - inside))
        inside = words
    return found


def plain(text: str) -> str:
    """Letters and digits only, in lower case: `llama.cpp` and `llamacpp` are one product."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _of_formats(store: Store) -> tuple[str, ...]:
    """Words of the formats that were read and the products that their pages name: nginx, litellm, vllm."""
    folder = resources.files("llmdoctor").joinpath("formats")
    words: dict[str, None] = {}
    for (name,) in store.run("select distinct format from inputs where format is not null order by 1"):
        words |= dict.fromkeys(word for word in str(name).split("_") if word not in ("json", "app", "llmdoctor", "log"))
        with resources.as_file(folder.joinpath(f"{name}.md")) as path:
            product = read_page(path, f"formats/{name}.md").settings.get("product") if path.is_file() else None
        words |= dict.fromkeys([str(product)] if product not in (None, "llmdoctor", "application") else [])
    return tuple(words)


def _words(header: str) -> set[str]:
    """The products that a Server or Via header names."""
    spelt = {plain(word) for part in header.lower().split(",") for word in re.split(r"[\s/()]+", part)}
    pieces = {word for word in re.split(r"[^a-z]+", header.lower()) if len(word) > 2}
    return {_SPELT.get(word, word) for word in spelt | pieces if len(word) > 2 and not word.isdigit()}
