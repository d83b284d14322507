"""What a model's name stands for, and what is said of a name that stands for nothing."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import constants

from mwviz.engine.embedded import EMBEDDED
from mwviz.engine.located import PATIENCE, Located, locate
from mwviz.engine.model import load_model
from mwviz.errors import ModelError
from tests.saved_model import save_tiny_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, float]]:
    """What the hub was asked; it never answers, and nothing was fetched from it."""
    seen: list[tuple[str, float]] = []

    def unreachable(name: str, *, timeout: float) -> None:
        seen.append((name, timeout))
        raise ConnectionError("no route")

    monkeypatch.setattr(huggingface_hub, "model_info", unreachable)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return seen


def test_a_name_that_is_nothing_here_is_asked_for_once(asked: list[tuple[str, float]]) -> None:
    with pytest.raises(ModelError) as refused:
        locate("nope")
    assert asked == [("nope", PATIENCE)]
    for looked in ("nope: no such folder", EMBEDDED, "never fetched", "cannot be reached"):
        assert looked in str(refused.value)


def test_a_name_that_the_hub_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str, **_named: float) -> None:
        raise huggingface_hub.errors.HFValidationError(name)

    monkeypatch.setattr(huggingface_hub, "model_info", unknown)
    with pytest.raises(ModelError, match="the hub has no such model that is public"):
        locate("owner/nope")


def test_what_the_hub_has_is_read_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "model_info", lambda *_given, **_named: None)
    assert locate("owner/tiny") == Located("owner/tiny", "owner/tiny", local=False)


def test_a_model_that_was_fetched_loads_without_the_hub(
    asked: list[tuple[str, float]], tmp_path: Path
) -> None:
    kept = tmp_path / "hub" / "models--owner--tiny"
    save_tiny_model(kept / "snapshots" / COMMIT)
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(COMMIT)
    assert load_model("owner/tiny").label == f"owner/tiny@{COMMIT[:16]}"
    assert [name for name, _ in asked] == ["owner/tiny"]


def test_files_that_are_no_model_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="'': no such folder"):
        locate("")
    note = tmp_path / "note"
    note.write_text("hello")
    with pytest.raises(ModelError, match=r"note: is a file, expected a \.gguf file or the folder"):
        locate(str(note))
