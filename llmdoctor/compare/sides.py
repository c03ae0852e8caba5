"""One side of a comparison: the published form of a diagnosis, however it came here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llmdoctor.compare.values import Source
from llmdoctor.diagnose.sample import Course, Curve, Endings, Figure, Kind, Known, Sample, Trait
from llmdoctor.errors import InputError


@dataclass(frozen=True)
class Side:
    """A diagnosis as `values.as_dict` gives it and a report carries it. `kind`: report, store or logs."""

    path: str
    kind: str
    plain: Mapping[str, Any]
    samples: tuple[Sample, ...]

    @property
    def symptoms(self) -> list[Mapping[str, Any]]:
        """Every symptom that was judged, whatever came of it."""
        return list(self.plain["symptoms"])

    @property
    def causes(self) -> list[Mapping[str, Any]]:
        """The listed causes by rank."""
        return list(self.plain["causes"])

    def sample(self, vantage: str | None) -> Sample | None:
        """The sample of one vantage."""
        return next((one for one in self.samples if one.vantage == vantage), None)

    def source(self, vantage: str | None) -> Source:
        """What is told of this side."""
        window, verdict = self.plain["window"], self.plain["verdict"]
        sample = self.sample(vantage)
        return Source(
            self.path,
            self.kind,
            self.plain["version"],
            vantage,
            sample.n if sample else None,
            window["from"],
            window["to"],
            verdict["level"],
            verdict["text"],
        )


def side(path: str, kind: str, plain: Mapping[str, Any]) -> Side:
    """A side from the published form of a diagnosis. InputError where that is damaged."""
    try:
        if not str(plain["schema"]).startswith("llmdoctor.report/"):
            raise InputError(f"{path}: is no report of llmdoctor: give what 'analyze -o' or 'analyze --json' wrote")
        samples = tuple(_sample(one) for one in plain.get("samples", ()))
        found = Side(path, kind, plain, samples)
        found.source(None)
        for one in (*found.symptoms, *found.causes):
            one["id"], one["subject"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: the report is damaged ({type(error).__name__} {error}): write it again") from error
    return found


def _sample(plain: Mapping[str, Any]) -> Sample:
    return Sample(
        str(plain["vantage"]),
        int(plain["n"]),
        int(plain["blocks"]),
        float(plain["clustered"]),
        tuple(Figure(**one) for one in plain["figures"]),
        int(plain["totals"]),
        _kinds(plain["total_kinds"]),
        int(plain["firsts"]),
        _kinds(plain["first_kinds"]),
        # Reports of older versions do not keep these.
        int(plain.get("paces", 0)),
        _kinds(plain.get("pace_kinds", ())),
        tuple(Endings(**one) for one in plain.get("endings", ())),
        tuple(
            Trait(one["name"], one["value"], tuple((str(name), int(n)) for name, n in one["values"]))
            for one in plain["traits"]
        ),
        tuple(_curve(one) for one in plain.get("curves", ())),
        tuple(_course(one) for one in plain.get("courses", ())),
    )


def _curve(plain: Mapping[str, Any]) -> Curve:
    known = tuple(Known(**one) for one in plain["known"])
    return Curve(str(plain["name"]), int(plain["n"]), tuple(plain["values"]), known)


def _course(plain: Mapping[str, Any]) -> Course:
    grids = tuple(tuple(float(value) for value in grid) for grid in plain["grids"])
    return Course(str(plain["name"]), tuple(plain["wholes"]), tuple(plain["parts"]), grids)


def _kinds(plain: Sequence[Mapping[str, Any]]) -> tuple[Kind, ...]:
    return tuple(Kind(**{**one, "grid": tuple(float(value) for value in one["grid"])}) for one in plain)
