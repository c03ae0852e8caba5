"""rules/ becomes a Rulebook; whatever is wrong names file, line and key, and a mistyped name the near one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from llmdoctor import rulebook
from llmdoctor.errors import PageError, UsageError

SYMPTOM = (rulebook.shipped_rules() / "symptoms/rate_limited.md").read_text(encoding="utf-8")
CAUSE = """# The provider refuses

```toml
layer = "provider"
explains = ["rate_limited"]
```

## Evidence

### {n} calls were refused

```toml
weight = 2
unknown = "It cannot be told."
```

```sql
select 'all' as subject, true as supports, 3 as n
```

## Affected

```sql
select 'all' as subject, attempt_id, 1 as claim from front
```

## Fix

### nginx

Raise `limit_req`.

### Envoy

Raise `rate_limits`.

## Verify

Run it again.

## When this is wrong

Never.

## Examples

```sql found attempts
select 'rate_limited' as outcome
```

```sql and chunks
select 1 as attempt_id
```

```sql absent attempts
select 'completed' as outcome
```
"""
Load = Callable[..., rulebook.Rulebook]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a folder with one symptom and one cause, changed by the edits (old text, new text)."""
    folder = tmp_path / "own"
    for kind in ("symptoms", "causes"):
        (folder / kind).mkdir(parents=True)
    profiles = '[chat]\n"rate_limited.least" = { value = 7, from = "a test" }\n[batch]\n'
    (folder / "profiles.toml").write_text(profiles, encoding="utf-8")
    (folder / "fields.toml").write_text('http_status = "log the status"\n', encoding="utf-8")
    monkeypatch.setattr(rulebook, "shipped_rules", lambda: folder)

    def load_edited(
        symptom: tuple[str, str] = ("", ""), cause: tuple[str, str] = ("", ""), name: str = "refused", **options: object
    ) -> rulebook.Rulebook:
        assert symptom[0] in SYMPTOM
        assert cause[0] in CAUSE
        (folder / "symptoms/rate_limited.md").write_text(SYMPTOM.replace(*symptom, 1), encoding="utf-8")
        (folder / f"causes/{name}.md").write_text(CAUSE.replace(*cause, 1), encoding="utf-8")
        return rulebook.load(**options)  # type: ignore[arg-type]  # the tests give what they test

    return load_edited


def test_a_symptom_is_read_whole(load: Load) -> None:
    [rule] = load().symptoms
    assert (rule.id, rule.severity, rule.unit, rule.counts) == ("rate_limited", "medium", "share", "attempts")
    assert rule.needs[0].startswith("http_status|")
    assert rule.affected == "outcome = 'rate_limited'"
    assert (rule.excess, rule.self_explained) == (None, False)
    assert rule.query.text.startswith("select vantage")
    assert rule.why.startswith("Every refused attempt")
    assert [sample.found for sample in rule.samples] == [True, False]


def test_a_cause_is_read_whole(load: Load) -> None:
    [rule] = load().causes
    assert (rule.id, rule.layer, rule.explains, rule.dimension) == ("refused", "provider", ("rate_limited",), None)
    assert rule.fixes == (("nginx", "Raise `limit_req`."), ("Envoy", "Raise `rate_limits`."))
    [piece] = rule.evidence
    assert (piece.sentence, piece.weight, piece.decisive, piece.min_rows) == ("{n} calls were refused", 2.0, False, 1)
    assert [[table for table, _ in sample.tables] for sample in rule.samples] == [["attempts", "chunks"], ["attempts"]]


def test_one_page_may_stand_for_several_ids(load: Load) -> None:
    ids = 'explains = ["rate_limited"]\nids = { bad_model = "model", bad_route = "route" }'
    book = load(cause=('explains = ["rate_limited"]', ids))
    assert [(rule.id, rule.dimension, len(rule.samples)) for rule in book.causes] == [
        ("bad_model", "model", 2),
        ("bad_route", "route", 2),
    ]
    assert book.ids == ("rate_limited", "bad_model", "bad_route")


def test_how_to_log_a_field_comes_with_the_book(load: Load) -> None:
    assert load().fields == {"http_status": "log the status"}


# --- limits: default, profile, --set


def test_a_limit_has_its_default_unless_the_profile_or_the_user_says_otherwise(load: Load) -> None:
    def least(**options: object) -> tuple[float, str]:
        limit = load(**options).symptoms[0].limits["least"]
        return limit.value, limit.source

    assert least(profile="batch") == (3.0, "default")
    assert least() == (7.0, "profile chat")
    assert least(settings={"rate_limited.least": 9}) == (9, "--set")


def test_a_profile_that_does_not_exist_is_told_with_those_that_do(load: Load) -> None:
    with pytest.raises(UsageError, match="no profile is called 'caht': choose one of batch, chat"):
        load(profile="caht")


@pytest.mark.parametrize("key", ["rate_limited.leest", "rate_limit.least", "least"])
def test_a_limit_that_does_not_exist_is_told_with_the_near_one(load: Load, key: str) -> None:
    with pytest.raises(UsageError, match=rf"--set {key}: no such limit, did you mean rate_limited\.least\?"):
        load(settings={key: 1})


def test_a_rule_that_does_not_exist_is_told_with_the_near_one(load: Load) -> None:
    with pytest.raises(UsageError, match="no rule is called 'rate_limit': did you mean rate_limited"):
        load().check_id("rate_limit")
    assert load().check_id("refused") == "refused"


# --- folders of the user


def test_a_page_of_the_user_takes_the_place_of_a_shipped_one(load: Load, tmp_path: Path) -> None:
    load()
    mine = tmp_path / "mine"
    (mine / "causes").mkdir(parents=True)
    (mine / "causes/refused.md").write_text(CAUSE.replace("The provider", "My provider"), encoding="utf-8")
    book = rulebook.load([mine])
    assert [rule.title for rule in book.causes] == ["My provider refuses"]
    assert book.causes[0].page.path == "mine/causes/refused.md"


def test_a_folder_that_does_not_exist_is_told(load: Load, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: no such folder of rules"):
        load(directories=[tmp_path / "nowhere"])


def test_pages_that_lie_where_nobody_looks_are_told(load: Load, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/refused.md").write_text(CAUSE, encoding="utf-8")
    with pytest.raises(UsageError, match="mine: no rules in it: their pages are looked for in its symptoms/ and causes/"):
        load(directories=[tmp_path / "mine"])


# --- pages that break the contract


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (("severity", "serverity"), r"unknown key 'serverity': did you mean 'severity'\?"),
        (('"medium"', '"middling"'), "severity = 'middling' must be one of low, medium, high, critical"),
        (('"attempts"', '"lines"'), "counts = 'lines' must be one of attempts, tasks"),
        (("affected = ", "# affected = "), "exactly one of 'excess', 'affected' and 'self_explained' must be set"),
        (("min_rows", 'excess = "ttft_ms"\nmin_rows'), "exactly one of 'excess', 'affected' and 'self_explained'"),
        (("help    = ", "halp    = "), r"unknown key 'halp': did you mean 'help'\?"),
        (('help    = "refused', '# "refused'), "limit 'least' needs 'default' and 'help'"),
        (("## Seen when", "## Seen if"), "unknown heading 'Seen if': a page has Seen when, Why it matters,"),
        (("## Why it matters", ""), "headings must be, once each and in this order: Seen when, Why it matters"),
        (("```sql\n", "```text\n"), "'Seen when' needs exactly one ```sql query, has 0"),
        (("```sql found attempts", "```sql shown attempts"), "an example is ```sql found.absent.and TABLE .ID."),
        (("```sql absent", "```sql found"), "a page needs an example where it is found and one where it is absent"),
        (("```sql found attempts", "```sql and attempts"), "'sql and TABLE' follows no example"),
    ],
)
def test_a_broken_symptom_names_file_line_and_key(load: Load, edit: tuple[str, str], message: str) -> None:
    with pytest.raises(PageError, match=rf"own/symptoms/rate_limited\.md:\d+: {message}"):
        load(symptom=edit)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (('layer = "provider"', 'layer = "cloud"'), "layer = 'cloud' must be one of caller, network, gateway"),
        (('["rate_limited"]', '["rate_limitd"]'), "explains names no symptom that there is: rate_limitd"),
        (
            ("explains =", 'explained_away_by = ["refusd"]\nexplains ='),
            r"no rule is called 'refusd': did you mean 'refused'\?",
        ),
        (("weight", "wieght"), r"unknown key 'wieght': did you mean 'weight'\?"),
        (("### {n} calls were refused", ""), "a cause needs at least one '###' piece of evidence"),
        (("weight = 2", "weight = = 2"), "not valid TOML"),
    ],
)
def test_a_broken_cause_names_file_line_and_key(load: Load, edit: tuple[str, str], message: str) -> None:
    with pytest.raises(PageError, match=rf"own/causes/refused\.md:\d+: {message}"):
        load(cause=edit)


def test_the_name_of_a_file_is_an_id_and_not_taken(load: Load) -> None:
    with pytest.raises(PageError, match=r"own/causes/Refused-Calls\.md:1: 'Refused-Calls' is no id"):
        load(name="Refused-Calls")


def test_a_cause_cannot_have_the_id_of_a_symptom(load: Load) -> None:
    with pytest.raises(PageError, match=r"own/causes/rate_limited\.md:1: 'rate_limited' is a symptom already"):
        load(name="rate_limited")


def test_the_shipped_rules_load_in_every_profile() -> None:
    for profile in ("chat", "interactive", "batch", "agent"):
        book = rulebook.load(profile=profile)
        assert book.symptoms
        assert list(book.ids) == [*sorted(r.id for r in book.symptoms), *sorted(r.id for r in book.causes)]
