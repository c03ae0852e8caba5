"""Where the time went, in words and cells: the same for the terminal and the page."""

from llmdoctor.diagnose.values import Diagnosis, Stretch, Where
from llmdoctor.report import figures

KINDS = ("normal", "slow", "failed")
_SHOWN = 0.05


def title(where: Where) -> str:
    """Which requests: "llama-70b, streamed, chat, at client"."""
    streamed = {True: "streamed", False: "not streamed", None: ""}[where.stream]
    words = (where.model or "model not named", streamed, where.operation or "", f"at {where.vantage}")
    return ", ".join(figures.cut(figures.line(word), 60) for word in words if word)


def kinds(where: Where) -> list[str]:
    """The populations that there are, in order."""
    return [kind for kind in KINDS if kind in where.populations]


def name(stretch: Stretch) -> str:
    """Its name; a bound says that it is one."""
    return figures.line(stretch.name) + ("" if stretch.exact else " (at most)")


def cell(stretch: Stretch, kind: str) -> str:
    """The mean of a stretch in one population; nothing where it takes none."""
    ms = stretch.mean_ms.get(kind, 0.0)
    return figures.duration(ms) if ms else ""


def share(stretch: Stretch) -> str:
    """The stretch's share of what the slow requests take more, "" where there is none."""
    return figures.share(stretch.excess_share) if stretch.excess_share else ""


def sentence(diagnosis: Diagnosis) -> str | None:
    """One sentence about the first kind that has slow requests; None where none has or nothing was found."""
    where = next((one for one in diagnosis.where if "slow" in one.populations), None)
    if where is None or not diagnosis.present:
        return None
    slow, normal = where.populations["slow"], where.populations["normal"]
    parts = sorted(where.stretches, key=lambda one: -(one.excess_share or 0))
    told = [f"{name(one)} {share(one)}" for one in parts if (one.excess_share or 0) >= _SHOWN]
    # Slow is slow for its tokens: where the slow ones had so much shorter answers, the whole times say the opposite.
    longer = slow.mean_ms > normal.mean_ms
    times = f"; {figures.duration(slow.mean_ms)} against {figures.duration(normal.mean_ms)}" if longer else ""
    than = "" if longer else " than their tokens take else"
    return (
        f"{figures.plural(slow.n, 'slow request')} ({title(where)}{times}) took longer{than} by {'; '.join(told[:3])}"
    )
