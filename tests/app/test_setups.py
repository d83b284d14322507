"""Scores of one name are told apart, and those from before more training say so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from mwviz import serve, store
from mwviz.demos import DEMOS
from mwviz.engine.chain import ABOUT, ARMS
from mwviz.store import Key
from mwviz_app import setups, state
from mwviz_app.scored import Setup
from mwviz_app.state import Opened
from tests.app.conftest import PATIENCE

NAME = "base+run/rightmost"
OLD, NEW = (Setup(f"{NAME}@{revision}", "float32", "cpu") for revision in ("old", "new"))


def key_of(setup: Setup) -> Key:
    return Key("digest", setup.model, "rightmost", setup.dtype, "reference", setup.device)


@pytest.fixture
def trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint that was scored, written again, and scored again; its folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    folder = tmp_path / "data" / "mwviz" / "training" / "run" / ARMS / "rightmost"
    folder.mkdir(parents=True)
    (folder / ABOUT).write_text("{}")
    for second, path in enumerate(
        (store.path_of(key_of(OLD)), folder / ABOUT, store.path_of(key_of(NEW)))
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (second, second))
    return folder


@pytest.mark.usefixtures("trained_again")
def test_scores_from_before_more_training_say_so() -> None:
    found = {one: {"rightmost": key_of(one)} for one in (NEW, OLD)}
    assert setups.told(NEW, found) == "run · rightmost · float32 · cpu · new"
    assert setups.told(OLD, found) == "earlier weights · run · rightmost · float32 · cpu · old"
    alone = {OLD: found[OLD]}
    assert setups.told(OLD, alone) == "earlier weights · run · rightmost · float32"
    assert setups.told(NEW, {NEW: found[NEW]}) == "run · rightmost · float32"


def test_scores_of_a_checkpoint_that_is_gone_and_of_a_plain_model_are_of_no_earlier_weights(
    trained_again: Path,
) -> None:
    found = {OLD: {"rightmost": key_of(OLD)}}
    (trained_again / ABOUT).unlink()
    assert setups.apart(OLD, found) == ()
    plain = Setup("model@1", "float32", "cpu")
    assert setups.apart(plain, {plain: {"rightmost": key_of(plain)}}) == ()


@pytest.mark.usefixtures("fresh_caches", "trained_again")
def test_the_pages_name_earlier_weights_where_they_show_their_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under the pickers of B - A too, which offer them after a comparison that failed."""
    opened = Opened(DEMOS[0].name, 0)
    [(real, keys)] = state.scored(opened).items()
    compared = state.comparisons
    found = {OLD: {"rightmost": key_of(OLD)}, real: keys}
    monkeypatch.setattr(state, "scored", lambda _: found)
    monkeypatch.setattr(state, "comparisons", lambda one, _, against: compared(one, real, against))

    def shown() -> AppTest:
        page = AppTest.from_file(str(serve.entry()), default_timeout=PATIENCE)
        page.session_state["opened"] = opened
        page.session_state["deck"] = "B - A"
        page.run().run()
        assert not page.exception
        return page

    page = shown()
    [a] = [box for box in page.selectbox if box.label == "A: model"]
    assert a.options[0] == "earlier weights · run · rightmost · float32"
    said = [text.value for text in page.text]
    assert any("run · rightmost, earlier weights), over the" in one for one in said)
    assert any(one.endswith("nats · earlier weights") for one in said)
    os.utime(store.path_of(key_of(OLD)), (5, 5))
    assert not any("earlier weights" in text.value for text in shown().text)
