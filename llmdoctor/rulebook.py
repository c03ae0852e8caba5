"""`rules/` -> Rulebook: every symptom and cause page read, checked for shape and turned into values.

Adding a rule is adding one file: there is no index. A page of a user's folder (`--rules DIR`) with the id of a shipped
one takes its place. Whatever is wrong with a page is a PageError that names file, line and key.
"""

import difflib
import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from llmdoctor.errors import PageError, UsageError
from llmdoctor.pages import Block, Page, Section, read_page

SYMPTOM_SECTIONS = ("Seen when", "Why it matters", "When this is wrong", "Examples")
CAUSE_SECTIONS = ("Evidence", "Affected", "Fix", "Verify", "When this is wrong", "Examples")
LAYERS = (
    "caller", "network", "gateway", "application", "input", "inference", "resource", "capacity", "provider", "delivery",
)  # fmt: skip
Kind = Literal["slow", "failed", "any"]
KINDS: tuple[Kind, ...] = ("slow", "failed", "any")
SEVERITIES = ("low", "medium", "high", "critical")
ID = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


@dataclass(frozen=True)
class Limit:
    """One limit of a symptom: its value in force, where that came from, and what it is, in a line."""

    name: str
    value: float
    source: str
    help: str


@dataclass(frozen=True)
class Sample:
    """One example of a page: rows for some tables and whether the page must be found in them.

    `tables` maps a table to the SELECT that gives its rows; `rule` is the id meant (pages that stand for several)."""

    found: bool
    rule: str
    tables: tuple[tuple[str, Block], ...]
    line: int


@dataclass(frozen=True)
class SymptomRule:
    """What is seen. `excess` is the latency whose surplus is attributed (ttft_ms | total_ms), `affected` the SQL
    condition over `front` that says which attempts count, `self_explained` that nothing is attributed at all. `kind` is
    what is wrong with them, for causes that are judged apart for slow and for failed attempts."""

    id: str
    title: str
    page: Page
    severity: str
    unit: str
    counts: str
    needs: tuple[str, ...]
    also: tuple[str, ...]
    min_rows: int
    limits: Mapping[str, Limit]
    query: Block
    excess: str | None
    affected: str | None
    kind: Kind
    self_explained: bool
    why: str
    caveat: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class EvidenceRule:
    """One sentence for or against a cause: its weight, what it needs, its query."""

    sentence: str
    line: int
    weight: float
    decisive: bool
    needs: tuple[str, ...]
    also: tuple[str, ...]
    min_rows: int
    unknown: str
    query: Block


@dataclass(frozen=True)
class CauseRule:
    """Why it happens. `dimension` is the column a page that stands for several ids is judged by."""

    id: str
    title: str
    page: Page
    layer: str
    explains: tuple[str, ...]
    explained_away_by: tuple[str, ...]
    dimension: str | None
    evidence: tuple[EvidenceRule, ...]
    affected: Block
    fixes: tuple[tuple[str, str], ...]
    verify: str
    caveat: str
    samples: tuple[Sample, ...]

    def kind_of(self, kind: Kind) -> Kind:
        """The kind of findings that its queries are asked for: `any` where they do not tell them apart."""
        queries = (self.affected, *(piece.query for piece in self.evidence))
        return kind if any(":kind" in query.text for query in queries) else "any"


@dataclass(frozen=True)
class Rulebook:
    """All rules in force, sorted by id, with how to log each field and the profile of absolute limits."""

    symptoms: tuple[SymptomRule, ...]
    causes: tuple[CauseRule, ...]
    fields: Mapping[str, str]
    profile: str
    calibration: Mapping[str, Any]

    @property
    def ids(self) -> tuple[str, ...]:
        """Every id, symptoms first."""
        return (*(rule.id for rule in self.symptoms), *(rule.id for rule in self.causes))

    @property
    def needs(self) -> frozenset[str]:
        """Everything that any rule needs, as the pages write it."""
        pieces = [piece for rule in self.causes for piece in rule.evidence]
        dimensions = {rule.dimension for rule in self.causes if rule.dimension}
        needs = (*(rule.needs for rule in self.symptoms), *(piece.needs for piece in pieces))
        return frozenset(dimensions.union(("upstream_instance",), *needs))

    def check_id(self, rule_id: str) -> str:
        """The id itself; UsageError with the nearest one where there is no such rule."""
        if rule_id in self.ids:
            return rule_id
        near = difflib.get_close_matches(rule_id, self.ids, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "see 'llmdoctor rules list'"
        raise UsageError(f"no rule is called {rule_id!r}: {hint}")


def shipped_rules() -> Path:
    """The folder of the rules that come with the program: in an installed package, or beside it in a checkout."""
    inside = Path(str(resources.files("llmdoctor"))) / "rules"
    return inside if inside.is_dir() else inside.parent.parent / "rules"


def load(
    directories: Sequence[Path] = (), settings: Mapping[str, float] | None = None, profile: str = "chat"
) -> Rulebook:
    """Reads the shipped rules and then `directories`. `settings` maps "rule.limit" to a value.

    PageError for a broken page, UsageError for an unknown profile, rule or limit."""
    folders = [shipped_rules(), *directories]
    profiles = _toml(folders[0] / "profiles.toml")
    if profile not in profiles:
        raise UsageError(f"no profile is called {profile!r}: choose one of {', '.join(sorted(profiles))}")
    seen = {rule.id: rule for page in _pages(folders, "symptoms") for rule in _symptoms(page)}
    named = {rule.id: rule for page in _pages(folders, "causes") for rule in _causes(page)}
    symptoms = tuple(_with_profile(seen[rule_id], profile, profiles[profile]) for rule_id in sorted(seen))
    causes = tuple(named[rule_id] for rule_id in sorted(named))
    fields = {name: text for folder in folders for name, text in _toml(folder / "fields.toml").items()}
    own = {path.stem for folder in directories for path in (folder / "causes").glob("*.md")}
    replaced = {rule.id for rule in causes if rule.page.id in own}
    book = Rulebook(symptoms, causes, fields, profile, read_calibration(folders[0] / "calibration.toml", replaced))
    _check_references(book)
    return _with_settings(book, settings or {})


def read_calibration(path: Path, replaced: Collection[str]) -> dict[str, Any]:
    """What scores are worth, by field profile; nothing where it was not measured. A page that took the place of a
    shipped one has no table of its own."""
    return {
        name: {**table, "causes": {one: knots for one, knots in table["causes"].items() if one not in replaced}}
        for name, table in _toml(path).items()
    }


def _toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PageError(str(path), 1, f"not valid TOML: {error}") from error


def _pages(folders: Sequence[Path], kind: str) -> list[Page]:
    """The pages of one kind, folder by folder: a later page of the same id takes the place of an earlier rule."""
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder}: no such folder of rules")
        if not any(any(folder.glob(name)) for name in ("symptoms/*.md", "causes/*.md", "fields.toml")):
            raise UsageError(f"{folder}: no rules in it: their pages are looked for in its symptoms/ and causes/")
    return [
        read_page(path, shown=f"{folder.name}/{kind}/{path.name}")
        for folder in folders
        for path in sorted((folder / kind).glob("*.md"))
    ]


def _symptoms(page: Page) -> list[SymptomRule]:
    settings = page.settings
    _only(page, page.head.line, settings, {
        "severity", "unit", "counts", "needs", "also", "min_rows", "limits", "excess", "affected", "kind",
        "self_explained",
    })  # fmt: skip
    sections = _sections(page, SYMPTOM_SECTIONS)
    rule = SymptomRule(
        id=_id(page),
        title=page.title,
        page=page,
        severity=_choice(page, settings, "severity", SEVERITIES),
        unit=str(settings.get("unit", "")),
        counts=_choice(page, settings, "counts", ("attempts", "tasks")),
        needs=tuple(settings.get("needs", ())),
        also=tuple(settings.get("also", ())),
        min_rows=int(settings.get("min_rows", 1)),
        limits=_limits(page, settings.get("limits", {})),
        query=_query(page, sections["Seen when"]),
        excess=settings.get("excess"),
        affected=settings.get("affected"),
        kind=_kind(page, settings),
        self_explained=bool(settings.get("self_explained", False)),
        why=sections["Why it matters"].prose,
        caveat=sections["When this is wrong"].prose,
        samples=_samples(page, sections["Examples"]),
    )
    if sum((rule.excess is not None, rule.affected is not None, rule.self_explained)) != 1:
        raise page.wrong(page.head.line, "exactly one of 'excess', 'affected' and 'self_explained' must be set")
    return [rule]


def _kind(page: Page, settings: Mapping[str, Any]) -> Kind:
    """Of a symptom: slow where it has an excess of time, else what the page says, else any."""
    given = {"kind": "slow" if "excess" in settings else "any"} | dict(settings)
    chosen = _choice(page, given, "kind", KINDS)
    return next(kind for kind in KINDS if kind == chosen)


def _limits(page: Page, tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Limit]:
    limits = {}
    for name, table in tables.items():
        _only(page, page.head.line, table, {"default", "help"})
        if "default" not in table or "help" not in table:
            raise page.wrong(page.head.line, f"limit {name!r} needs 'default' and 'help'")
        limits[name] = Limit(name, float(table["default"]), "default", str(table["help"]))
    return limits


def _causes(page: Page) -> list[CauseRule]:
    settings = page.settings
    _only(page, page.head.line, settings, {"explains", "layer", "explained_away_by", "ids"})
    sections = _sections(page, CAUSE_SECTIONS)
    evidence = tuple(_evidence(page, part) for part in sections["Evidence"].parts)
    if not evidence:
        raise page.wrong(sections["Evidence"].line, "a cause needs at least one '###' piece of evidence")
    ids: Mapping[str, str | None] = settings.get("ids") or {_id(page): None}
    samples = _samples(page, sections["Examples"])
    return [
        CauseRule(
            id=cause_id,
            title=page.title,
            page=page,
            layer=_choice(page, settings, "layer", LAYERS),
            explains=tuple(settings.get("explains", ())),
            explained_away_by=tuple(settings.get("explained_away_by", ())),
            dimension=dimension,
            evidence=evidence,
            affected=_query(page, sections["Affected"]),
            fixes=tuple((part.title, part.prose) for part in sections["Fix"].parts),
            verify=sections["Verify"].prose,
            caveat=sections["When this is wrong"].prose,
            samples=tuple(sample for sample in samples if sample.rule in (cause_id, page.id)),
        )
        for cause_id, dimension in ids.items()
    ]


def _evidence(page: Page, part: Section) -> EvidenceRule:
    settings = part.settings(page.path)
    _only(page, part.line, settings, {"weight", "decisive", "needs", "also", "min_rows", "unknown"})
    return EvidenceRule(
        sentence=part.title,
        line=part.line,
        weight=float(settings.get("weight", 1)),
        decisive=bool(settings.get("decisive", False)),
        needs=tuple(settings.get("needs", ())),
        also=tuple(settings.get("also", ())),
        min_rows=int(settings.get("min_rows", 1)),
        unknown=str(settings.get("unknown", "This cannot be told from these logs.")),
        query=_query(page, part),
    )


def _samples(page: Page, section: Section) -> tuple[Sample, ...]:
    """`sql found TABLE [ID]` and `sql absent TABLE [ID]` begin an example, `sql and TABLE` adds rows to it."""
    samples: list[Sample] = []
    for block in section.blocks:
        words = block.info.split()
        if len(words) < 3 or words[0] != "sql" or words[1] not in ("found", "absent", "and"):
            raise page.wrong(block.line - 1, "an example is ```sql found|absent|and TABLE [ID]")
        if words[1] == "and":
            if not samples:
                raise page.wrong(block.line - 1, "'sql and TABLE' follows no example")
            samples[-1] = replace(samples[-1], tables=(*samples[-1].tables, (words[2], block)))
        else:
            rule = words[3] if len(words) > 3 else page.id
            samples.append(Sample(words[1] == "found", rule, ((words[2], block),), block.line))
    if not any(sample.found for sample in samples) or all(sample.found for sample in samples):
        raise page.wrong(section.line, "a page needs an example where it is found and one where it is absent")
    return tuple(samples)


def _sections(page: Page, titles: Sequence[str]) -> dict[str, Section]:
    """The page's sections by title. PageError unless they are exactly `titles` in that order."""
    for section in page.sections:
        if section.title not in titles:
            raise page.wrong(section.line, f"unknown heading {section.title!r}: a page has {', '.join(titles)}")
    if tuple(section.title for section in page.sections) != tuple(titles):
        raise page.wrong(page.head.line, f"headings must be, once each and in this order: {', '.join(titles)}")
    return {section.title: section for section in page.sections}


def _query(page: Page, section: Section) -> Block:
    queries = [block for block in section.blocks if block.info == "sql"]
    if len(queries) != 1:
        raise page.wrong(section.line, f"{section.title!r} needs exactly one ```sql query, has {len(queries)}")
    return queries[0]


def _id(page: Page) -> str:
    if not ID.fullmatch(page.id):
        raise page.wrong(1, f"{page.id!r} is no id: lower case words joined by underscores")
    return page.id


def _choice(page: Page, settings: Mapping[str, Any], key: str, choices: Sequence[str]) -> str:
    value = settings.get(key)
    if value not in choices:
        raise page.wrong(page.head.line, f"{key} = {value!r} must be one of {', '.join(choices)}")
    return str(value)


def _only(page: Page, line: int, settings: Mapping[str, Any], known: set[str]) -> None:
    for key in settings:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
            raise page.wrong(line, f"unknown key {key!r}: did you mean {near[0]!r}?")


def _check_references(book: Rulebook) -> None:
    """A page may name rules that are not in this book (yet), but not misspell one that is."""
    for rule in book.causes:
        line = rule.page.head.line
        if rule.id in {symptom.id for symptom in book.symptoms}:
            raise rule.page.wrong(line, f"{rule.id!r} is a symptom already")
        if not {symptom.id for symptom in book.symptoms}.intersection(rule.explains):
            raise rule.page.wrong(line, f"explains names no symptom that there is: {', '.join(rule.explains)}")
        for name in {*rule.explains, *rule.explained_away_by}.difference(book.ids):
            if near := difflib.get_close_matches(name, book.ids, n=1, cutoff=0.85):
                raise rule.page.wrong(line, f"no rule is called {name!r}: did you mean {near[0]!r}?")


def _with_profile(rule: SymptomRule, name: str, profile: Mapping[str, Any]) -> SymptomRule:
    limits = {
        limit.name: replace(limit, value=float(profile[f"{rule.id}.{limit.name}"]["value"]), source=f"profile {name}")
        if f"{rule.id}.{limit.name}" in profile
        else limit
        for limit in rule.limits.values()
    }
    return replace(rule, limits=limits)


def _with_settings(book: Rulebook, settings: Mapping[str, float]) -> Rulebook:
    rules = {rule.id: rule for rule in book.symptoms}
    for key, value in settings.items():
        rule_id, _, name = key.partition(".")
        rule = rules.get(rule_id)
        if rule is None or name not in rule.limits:
            known = [f"{one.id}.{limit}" for one in book.symptoms for limit in one.limits]
            near = difflib.get_close_matches(key, known, n=1, cutoff=0.0)
            raise UsageError(f"--set {key}: no such limit, did you mean {near[0] if near else 'RULE.LIMIT'}?")
        limit = replace(rule.limits[name], value=value, source="--set")
        rules[rule_id] = replace(rule, limits={**rule.limits, name: limit})
    return replace(book, symptoms=tuple(rules[rule_id] for rule_id in sorted(rules)))
