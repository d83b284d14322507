from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "proofs.md"
NAMED = sorted(set(re.findall(r"`((?:engine/)?test_\w+\.py)::(test_\w+)`", PAGE.read_text())))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=lambda part: part)
def test_every_test_that_the_page_names_exists(file: str, name: str) -> None:
    assert f"def {name}(" in (TESTS / file).read_text()


def test_the_page_names_tests() -> None:
    assert len(NAMED) >= 10
