"""What a model's name stands for, and what is said of a name that stands for nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import MagicMock

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import HfHubHTTPError

from mwviz.engine.embedded import EMBEDDED
from mwviz.engine.located import PATIENCE, Located, locate
from mwviz.engine.model import load_model, load_reader
from mwviz.errors import ModelError
from tests.saved_model import save_chat_model, save_tiny_model

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
    for looked in ("nope: no such folder", EMBEDDED, "never fetched", "cannot be asked: no route"):
        assert looked in str(refused.value)


def test_a_model_that_cannot_be_looked_at_is_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 300)
    for asked in (load_reader, load_model, locate):
        with pytest.raises(ModelError, match=r"File name too long, expected a model that can be"):
            asked(str(path))


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


@pytest.mark.parametrize(
    ("raised", "cause"),
    [
        (
            HfHubHTTPError.__bases__[0]("\n\n429 Too Many Requests: slow down.\nUrl: x"),
            "429 Too Many",
        ),
        (HfHubHTTPError("401 Unauthorized", response=MagicMock()), "401 Unauthorized"),
        (TimeoutError(), "TimeoutError"),
        (json.JSONDecodeError("Expecting value", "<html>", 0), "Expecting value"),
    ],
)
def test_what_keeps_the_hub_from_being_asked_is_said_in_a_line(
    raised: Exception, cause: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub, "model_info", raising(raised))
    with pytest.raises(ModelError, match=f"cannot be asked: {cause}") as refused:
        locate("owner/nope")
    assert "\n" not in str(refused.value)


def test_a_mistake_of_ours_is_not_laid_to_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huggingface_hub, "model_info", raising(TypeError("no argument timeout")))
    with pytest.raises(TypeError, match="no argument timeout"):
        locate("owner/tiny")


def raising(error: Exception) -> Callable[..., None]:
    def refuse(*_given: object, **_named: object) -> None:
        raise error

    return refuse


@pytest.mark.usefixtures("asked")
def test_a_tokenizer_fetched_without_weights_reads_and_is_no_model(tmp_path: Path) -> None:
    kept = tmp_path / "hub" / "models--owner--tiny"
    folder = kept / "snapshots" / COMMIT
    save_chat_model(folder)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    (kept / "refs").mkdir()
    (kept / "refs" / "main").write_text(COMMIT)
    with pytest.raises(ModelError, match="fetched without weights from the hub"):
        load_model("owner/tiny")
    assert load_reader("owner/tiny").tokenizer is not None


def test_files_that_are_no_model_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="'': no such folder"):
        locate("")
    note = tmp_path / "note"
    note.write_text("hello")
    with pytest.raises(ModelError, match=r"note: is a file, expected a \.gguf file or the folder"):
        locate(str(note))
