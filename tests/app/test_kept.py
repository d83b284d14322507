"""What all sessions share of a rollout follows the scores that lie in the score cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit as st

from mwviz import demos, store
from mwviz.engine.scores import Scores
from mwviz_app import kept
from mwviz_app.scored import Judged
from mwviz_app.sources import version_of

DEMO = demos.DEMOS[0]
SHOWN = kept.Shown(version_of(DEMO.path), 0, None)


@pytest.fixture(autouse=True)
def _nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    st.cache_resource.clear()
    yield
    st.cache_resource.clear()


def made(method: str) -> tuple[store.Key, Scores]:
    """Scores of the demo under a key that only the score cache can have."""
    (shipped,) = [key for key in demos.kept_keys(DEMO) if key.method == method]
    found = kept.scores(shipped)
    assert found is not None
    return shipped._replace(model="another@1"), found


def test_scores_that_come_back_are_shown_and_those_made_without_them_are_not_kept() -> None:
    (view, rightmost), (judge, truth) = made("rightmost"), made("logit_tree")
    judged = (Judged(view, judge),)
    assert kept.scores(view) is None
    store.save(judge, truth)
    bare = kept.payload(SHOWN, judged)
    assert kept.comparisons(SHOWN, judged) == {}
    assert kept.verdict(SHOWN, judged, "rightmost").drift is None

    store.save(view, rightmost)
    assert kept.scores(view) is not None
    assert "rightmost" in kept.comparisons(SHOWN, judged)
    assert len(kept.payload(SHOWN, judged)) > len(bare)
    assert kept.verdict(SHOWN, judged, "rightmost").drift is not None


def test_a_result_is_made_once_for_the_scores_that_are_there() -> None:
    (view, rightmost), (judge, truth) = made("rightmost"), made("logit_tree")
    store.save(view, rightmost)
    store.save(judge, truth)
    judged = (Judged(view, judge),)
    assert kept.comparisons(SHOWN, judged) is kept.comparisons(SHOWN, judged)
    assert kept.payload(SHOWN, judged) is kept.payload(SHOWN, judged)
    store.clear()
    assert "rightmost" in kept.comparisons(SHOWN, judged)
