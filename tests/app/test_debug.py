"""What the Debug page claims and refuses: its badge, its pickers, buttons whose file is gone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

from mwviz import load, serve
from mwviz.jobs import Job
from mwviz.restored import After, Cost
from mwviz.summary import fidelity
from mwviz.verdict import DOUBTS
from mwviz_app import bar, cards, claim, fetched, state, studies
from mwviz_app.jobs import JobState
from mwviz_app.state import Opened
from tests.app.conftest import PATIENCE, press

CASES = Path(__file__).parents[1] / "data" / "cases"
pytestmark = pytest.mark.usefixtures("fresh_caches")


def page_of(monkeypatch: pytest.MonkeyPatch, path: Path, **told: Any) -> AppTest:
    named = serve.Launch((str(path),))
    monkeypatch.setattr(sys, "argv", ["main.py", named.to_argument()])
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    for key, value in told.items():
        page.session_state[key] = value
    page.run()
    assert not page.exception
    return page


def popovers(block: Block) -> Iterator[str]:
    """The labels of all popovers in a block."""
    if block.type == "popover":
        yield block.proto.popover.label
    for child in block.children.values():
        if isinstance(child, Block):
            yield from popovers(child)


def said(page: AppTest) -> str:
    return "\n".join(text.value for text in page.text)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Call 1 drops token 2 and keeps what was sampled."""
    path = tmp_path / "run.jsonl"
    calls = [([1, 2], [3, 4]), ([1, 3, 4], [5])]
    lines = [json.dumps({"prompt_ids": p, "completion_ids": c}) for p, c in calls]
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("case", "sure"), [("H04", "partial"), ("H16", "rebuilt")], ids=["partial", "rebuilt"]
)
def test_an_exact_view_of_a_log_that_lacks_text_is_exact_for_what_the_log_holds(
    monkeypatch: pytest.MonkeyPatch, case: str, sure: str
) -> None:
    path = CASES / case / "session.jsonl"
    assert fidelity(load(path).analyses[0]) == sure
    page = page_of(monkeypatch, path, view="packed_mask", deck="All views")
    labels = list(popovers(page.main))
    assert claim.KNOWN in labels
    assert "exact" not in labels
    assert claim.EXACT_AS_KNOWN in said(page)
    assert DOUBTS[sure] in said(page)
    [table] = [frame.value for frame in page.dataframe if "note" in frame.value.columns]
    notes = dict(zip(table["view"], table["note"], strict=True))
    assert notes["packed_mask"] == "exact for what the log holds"


def test_an_exact_view_of_a_whole_log_is_exact(
    monkeypatch: pytest.MonkeyPatch, trace: Path
) -> None:
    page = page_of(monkeypatch, trace, view="packed_mask")
    labels = list(popovers(page.main))
    assert "exact" in labels
    assert claim.KNOWN not in labels


def test_a_number_to_colour_by_is_offered_only_where_something_is_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[str] = []
    monkeypatch.setattr(bar, "_metric", lambda **given: drawn.append(given["key"]))
    page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
    page.session_state["opened"] = Opened("busy", 0)
    page.run()
    assert drawn == ["metric"]
    page.session_state["view"] = "union_mask"
    page.run()
    assert not page.exception
    assert "union_mask cannot lay this rollout out." in said(page)
    assert drawn == ["metric"]


@pytest.mark.parametrize(
    "label",
    ["What causes this?", "What if nothing had been evicted?", "Undo this eviction", "Copy link"],
)
def test_a_button_whose_file_is_gone_says_so(
    monkeypatch: pytest.MonkeyPatch, trace: Path, label: str
) -> None:
    page = page_of(monkeypatch, trace)
    opened = state.opened()
    assert opened is not None
    page.session_state["selection"] = cards.of_target(state.analysis(opened), 2)
    page.run()
    trace.unlink()
    press(page, label)
    assert [error.value for error in page.error] == ["mwviz could not do this."]
    assert said(page) == f"{trace}: is gone, expected the trace that was there", "told once"
    page.run()
    assert [error.value for error in page.error] == ["mwviz cannot show this."]


def test_the_number_that_is_asked_for_of_a_file_that_is_gone_is_refused_in_words(
    monkeypatch: pytest.MonkeyPatch, trace: Path
) -> None:
    def alone() -> None:
        from mwviz.errors import TraceError
        from mwviz_app import fetched

        def gone(_: object) -> None:
            raise TraceError("the file is gone")

        fetched._told = gone  # type: ignore[assignment]
        fetched.answer(None)  # type: ignore[arg-type]

    monkeypatch.setattr(fetched, "_told", fetched._told)
    assert trace.exists()
    page = AppTest.from_function(alone).run()
    assert not page.exception
    assert "the file is gone" in said(page)


def test_what_an_eviction_cost_is_told_only_by_the_checkpoint_that_was_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The folder of a checkpoint stays the same when it is trained on: its scores name which."""

    def card(model: str) -> None:
        from mwviz_app import changes, state
        from mwviz_app.scored import Setup
        from mwviz_app.state import Opened

        opened = Opened("busy", 0)
        changes.show(opened, state.analysis(opened), Setup(model, "float32", "cpu"))

    opened = Opened("busy", 0)
    cost = Cost(7, (After(3, 5, 0.5, 0.25),), (), 0.01)
    job = Job("undone", "undo", "log", "rollout", studies.NO_METHOD, "folder", at=0)
    asked = replace(job, tokens=state.digest(opened), scored="trained@2")
    done = JobState(asked, "done", result=json.loads(json.dumps(cost.to_json())))
    monkeypatch.setattr(studies, "started", lambda _: [done])
    monkeypatch.setattr(studies, "model_of", lambda *_: "folder")
    monkeypatch.setattr(studies, "refusal", lambda *_: "")
    now = AppTest.from_function(card, args=("trained@2",), default_timeout=PATIENCE).run()
    assert not now.exception
    assert "With 7 tokens put back, log p rises by 0.5 nats" in said(now)
    before = AppTest.from_function(card, args=("trained@1",), default_timeout=PATIENCE).run()
    assert not before.exception
    assert "put back, log p" not in said(before)
    assert "Undo this eviction" in [button.label for button in before.button]
