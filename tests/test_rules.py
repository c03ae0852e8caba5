"""The rules that we ship are clean. What lint looks for stands in test_lint.py."""

import pytest

from llmdoctor import rulebook
from llmdoctor.lint import lint

BOOK = rulebook.load()
FAULTS = lint(BOOK)
PAGES = sorted({rule.page.path for rule in BOOK.symptoms} | {rule.page.path for rule in BOOK.causes})


@pytest.mark.parametrize("page", PAGES)
def test_page_is_clean(page: str) -> None:
    assert [fault for fault in FAULTS if fault.startswith(f"{page}:")] == []


def test_every_fault_belongs_to_a_page() -> None:
    assert [fault for fault in FAULTS if fault.partition(":")[0] not in PAGES] == []


def test_every_symptom_has_a_cause_or_explains_itself() -> None:
    explained = {symptom for cause in BOOK.causes for symptom in cause.explains}
    assert [rule.id for rule in BOOK.symptoms if rule.id not in explained and not rule.self_explained] == []
