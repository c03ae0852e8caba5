"""What only a probe has: a client whose own lateness is known, and products that name themselves in headers."""

import re
from collections.abc import Mapping
from importlib import resources

from llmdoctor.pages import read_page
from llmdoctor.store import Store

LAG_MS = 25.0
"""A client whose stamps are later than this (P99 of its self-check) is not believed about gaps of twice that."""

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

    It rests on the self-check (`loop_lag_ms`, P99 on loopback) and on the time between two pieces at the innermost
    place: whoever stamps later than half of that sees lumps that are his own."""
    lag, gap = store.run(
        """
        select (select max(try_cast(value as double)) from facts where name = 'loop_lag_ms'),
               quantile_disc(case when spread_ms >= chunks then spread_ms else total_ms end / (chunks - 1), 0.5)
        from   probes
        where  place = 1 and variant = 'stream' and chunks >= 2
        """
    )[0]
    if lag is None or lag <= LAG_MS or (gap is not None and lag <= gap / 2):
        return None
    pace = f", and the pieces of the stream follow each other every {gap:.0f} ms" if gap is not None else ""
    return f"the client stamped up to {lag:.0f} ms late in its own self-check{pace}"


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
