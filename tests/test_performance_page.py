"""The performance page is what the committed results say."""

from __future__ import annotations

import pytest

from bench.performance_table import main
from tests.test_architecture import ROOT


def test_the_page_is_made_from_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    main()
    page = (ROOT / "docs" / "performance.md").read_text()
    assert capsys.readouterr().out == page, (
        "python -m bench.performance_table > docs/performance.md"
    )
