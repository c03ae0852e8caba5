"""Every example of every rule page, through the real engine, and every limit moved a thousandfold."""

from collections.abc import Callable
from pathlib import Path

import pytest

from llmdoctor import rulebook
from llmdoctor.diagnose import examples
from llmdoctor.errors import UsageError

BOOK = rulebook.load()
CAUSE = """# The provider refuses

```toml
layer = "provider"
explains = ["rate_limited"]
```

## Evidence

### {{n}} calls were refused

```toml
needs = ["http_status"]
```

```sql
select 'all' as subject, count_if(http_status = {status}) > 3 as supports, count(*) as n from front
```

## Affected

```sql
select 'all' as subject, attempt_id, 1 as claim from front where http_status = 429
```

## Fix

### nginx

Raise `limit_req`.

## Verify

Run it again.

## When this is wrong

Never.

## Examples

```sql found attempts
select 'rate_limited' as outcome, 429 as http_status, 100 as total_ms from range(9)
```

```sql absent attempts
select 'rate_limited' as outcome, {absent} as http_status, 100 as total_ms from range(9)
```
"""
Run = Callable[..., list[tuple[str, bool, str]]]


@pytest.mark.parametrize("rule_id", BOOK.ids)
def test_examples_come_out_as_the_page_says(rule_id: str) -> None:
    assert [text for _, ok, text in examples.test_rules(BOOK, [rule_id]) if not ok] == []


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the examples of one rule of a folder of its own: one shipped symptom, changed by `edit`, and one cause."""
    shipped, folder = rulebook.shipped_rules(), tmp_path / "own"
    for name in ("profiles.toml", "symptoms/rate_limited.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((shipped / name).read_bytes())
    (folder / "causes").mkdir()
    monkeypatch.setattr(rulebook, "shipped_rules", lambda: folder)

    def run_one(
        rule_id: str, edit: tuple[str, str] = ("", ""), status: int = 429, absent: int = 503
    ) -> list[tuple[str, bool, str]]:
        page = folder / "symptoms/rate_limited.md"
        page.write_text(page.read_text(encoding="utf-8").replace(*edit), encoding="utf-8")
        text = CAUSE.format(status=status, absent=absent)
        (folder / "causes/mine.md").write_text(text, encoding="utf-8")
        return list(examples.test_rules(rulebook.load(), [rule_id]))

    return run_one


def test_a_good_page_holds_in_every_example_and_limit(run: Run) -> None:
    found = run("rate_limited")
    assert all(ok for _, ok, _ in found), found
    assert [text.partition(": ")[2] for _, _, text in found if "limit" not in text.partition(": ")[2]] == [
        "found, as it should be",
        "absent, as it should be",
    ]
    assert [ok for _, ok, _ in run("mine")] == [True, True]


def test_an_example_that_comes_out_otherwise_is_told(run: Run) -> None:
    found = run("rate_limited", ("range(5)", "range(1)"))
    assert ("rate_limited", False) in {(rule_id, ok) for rule_id, ok, _ in found}
    assert any(text.endswith("should be found, is absent") for _, _, text in found)


def test_an_example_that_cannot_be_run_is_told(run: Run) -> None:
    found = run("rate_limited", ("429 as http_status", "'many' as http_status"))
    assert any("example cannot be run: " in text for _, ok, text in found if not ok)


def test_a_limit_that_guards_nothing_is_told(run: Run) -> None:
    found = run("rate_limited", (">= :least", ">= 0 * :least"))
    assert [text for _, ok, text in found if not ok] == [
        "own/symptoms/rate_limited.md: limit least: x 1000 and x 0.001 turn no example: add one that rests on it, "
        "or drop the limit"
    ]


def test_a_cause_that_is_not_first_in_its_own_example_is_told(run: Run) -> None:
    [first, _] = run("mine", status=418)
    assert not first[1]
    assert first[2].endswith("should be first, but the causes are none (seen: rate_limited)")


def test_a_cause_that_is_named_in_its_look_alike_is_told(run: Run) -> None:
    [_, second] = run("mine", absent=429)
    assert not second[1]
    assert second[2].endswith("should not be named, but the causes are mine 1.00 (seen: rate_limited)")


def test_a_rule_that_does_not_exist_is_told_with_the_near_one() -> None:
    with pytest.raises(UsageError, match="no rule is called 'rate_limitd': did you mean rate_limited"):
        list(examples.test_rules(BOOK, ["rate_limitd"]))
