from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (
    AutoConfig,
    BloomConfig,
    FalconConfig,
    Gemma2Config,
    GptOssConfig,
    GraniteConfig,
    MambaConfig,
    MistralConfig,
    MixtralConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3NextConfig,
)

from mwviz.engine import check
from mwviz.engine.fused import decoder_layers
from mwviz.engine.model import DTYPES, Model, choose_device, load_model, memory_errors, wrap
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.errors import ModelError
from mwviz.views import build_view
from tests.engine import tiny

SIZES: dict[str, object] = {
    "vocab_size": tiny.VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
}
LONG = ((range(12), range(20, 30)), (range(8), range(30, 44)))
"""Two branches whose contexts are longer than the windows below."""


def config_of(kind: type[PreTrainedConfig], **changes: object) -> PreTrainedConfig:
    config: PreTrainedConfig = kind.from_dict(SIZES | changes)
    return config


def logprobs(model: Model, method: str, calls: tiny.Calls = LONG) -> np.ndarray:
    tree = tiny.tree_of(calls)
    return finish(score(tree, build_view(tree, method), model)).logprob


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny-llama"
    tiny.module_of(tiny.llama_config()).save_pretrained(folder)
    return folder


def test_local_model_is_loaded_as_saved(saved: Path) -> None:
    model = load_model(saved)
    assert (model.name, model.precision, model.device.type) == ("tiny-llama", "float32", "cpu")
    assert (model.vocabulary, model.max_positions, model.tokenizer) == (64, 128, None)
    assert not model.module.training
    expected = logprobs(tiny.llama(), "packed_mask")
    assert np.abs(logprobs(model, "packed_mask") - expected).max() < 1e-6


def test_revision_follows_the_weights(saved: Path) -> None:
    first, again = load_model(saved).revision, load_model(str(saved)).revision
    weights = load_file(saved / "model.safetensors")
    name = sorted(weights)[0]
    weights[name].view(-1)[0] += 1
    save_file(weights, saved / "model.safetensors", metadata={"format": "pt"})
    assert first == again != load_model(saved).revision


@pytest.mark.parametrize("name", DTYPES)
def test_dtype_is_the_one_asked_for(saved: Path, name: str) -> None:
    assert load_model(saved, dtype=name).precision == name


def test_adapter_is_merged_and_changes_the_revision(saved: Path, tmp_path: Path) -> None:
    adapted = get_peft_model(
        tiny.module_of(tiny.llama_config()),
        LoraConfig(target_modules=["q_proj"], init_lora_weights=False),
    )
    adapted.save_pretrained(str(tmp_path / "adapter"))
    plain, merged = load_model(saved), load_model(saved, adapter=tmp_path / "adapter")
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        expected = adapted(input_ids=ids).logits
        assert torch.allclose(merged.module(input_ids=ids).logits, expected, atol=1e-4)
        assert not torch.allclose(plain.module(input_ids=ids).logits, expected, atol=0.1)
    assert plain.revision != merged.revision
    assert (plain.name, merged.name) == ("tiny-llama", "tiny-llama+adapter")
    (tmp_path / "adapter" / "adapter_model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"holds no adapter_model\.safetensors"):
        load_model(saved, adapter=tmp_path / "adapter")


def test_pickled_weights_are_refused_by_name(saved: Path) -> None:
    (saved / "model.safetensors").rename(saved / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"holds only pytorch_model\.bin; expected \*\.safe"):
        load_model(saved)
    with pytest.raises(ModelError, match="pickled weights can run code"):
        load_model(saved / "pytorch_model.bin")


def test_models_own_code_is_never_run(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    config["model_type"] = "strange"
    config["auto_map"] = {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"}
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "mine.py").write_text("raise SystemExit('ran')")
    with pytest.raises(ModelError, match="tiny-llama: cannot be loaded"):
        load_model(saved)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no/such/folder", "no such folder, and not a hub id"),
        ("missing.gguf", "no such file"),
        ("weights.pt", "convert them to safetensors"),
    ],
)
def test_names_that_are_no_model_are_refused(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(name)


def test_an_adapter_that_is_not_there_is_named(saved: Path) -> None:
    with pytest.raises(ModelError, match="gone: no such folder, expected that of an adapter"):
        load_model(saved, adapter="gone")


def test_damaged_weights_are_a_model_error(saved: Path) -> None:
    (saved / "model.safetensors").write_bytes(b"\x08" + bytes(20))
    with pytest.raises(ModelError, match="tiny-llama: cannot be loaded"):
        load_model(saved)


def test_unknown_choices_list_the_valid_ones(saved: Path) -> None:
    with pytest.raises(ModelError, match="expected one of auto, cpu, cuda, mps"):
        choose_device("tpu")
    with pytest.raises(ModelError, match="expected one of float64, float32"):
        load_model(saved, dtype="int4")
    tree = tiny.tree_of(LONG)
    with pytest.raises(ModelError, match="expected one of auto, split, varlen, flex"):
        score(tree, build_view(tree, "packed_mask"), tiny.llama(), kernel="fast")


def test_device_is_chosen_from_what_the_machine_has() -> None:
    assert choose_device("cpu").type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises(ModelError, match="no cuda device"):
            choose_device("cuda")
        assert choose_device("auto").type in ("cpu", "mps")


def test_memory_errors_say_what_to_do() -> None:
    model = tiny.llama()
    spent = (torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("can't allocate memory"))
    for error in spent:
        with (
            pytest.raises(ModelError, match="a row of 9 tokens does not fit"),
            memory_errors(model, 9),
        ):
            raise error
    with pytest.raises(RuntimeError, match="shape"), memory_errors(model, 9):
        raise RuntimeError("shape mismatch")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (MambaConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2), "linear_attention"),
        (
            config_of(
                Qwen3NextConfig,
                layer_types=["linear_attention", "full_attention"],
                num_experts=0,
                linear_num_value_heads=4,
                linear_num_key_heads=2,
                linear_key_head_dim=16,
                linear_value_head_dim=16,
            ),
            "its layers are linear_attention",
        ),
        (BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=2), "ALiBi"),
        (
            FalconConfig(
                vocab_size=64,
                hidden_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                alibi=True,
            ),
            "ALiBi",
        ),
    ],
    ids=["mamba", "hybrid", "bloom", "falcon-alibi"],
)
def test_models_a_mask_cannot_reach_are_refused_by_name(
    config: PreTrainedConfig, reason: str
) -> None:
    model = tiny.model_of(config)
    with pytest.raises(ModelError, match=f"{reason}.*logit_tree"):
        logprobs(model, "packed_mask")
    each, calls = logprobs(model, "logit_tree"), logprobs(model, "call_by_call")
    assert np.abs(each - calls).max() < 1e-4


@pytest.fixture
def dropping() -> Model:
    """A model whose experts each take the first six tokens of a row, as Switch's do."""
    module = tiny.module_of(tiny.llama_config())
    torch.manual_seed(4)
    for layer in decoder_layers(module):
        layer.mlp = Experts()
    return wrap(module, name="switch", revision="random")


class Experts(torch.nn.Module):
    """Top-1 routing in the order of the row; a token that finds its expert full gets nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.expert_capacity = 6
        self.router = torch.nn.Linear(64, 2, bias=False)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(2))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        chosen = torch.nn.functional.one_hot(self.router(hidden).argmax(-1), 2)
        taken = chosen * (chosen.cumsum(-2) <= self.expert_capacity)
        said = [expert(hidden) for expert in self.experts]
        mixed: torch.Tensor = taken[..., :1] * said[0] + taken[..., 1:] * said[1]
        return mixed


def test_experts_that_drop_tokens_are_refused_by_name_with_what_works(
    dropping: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = r"switch: .*drop tokens beyond a capacity \(Experts.expert_capacity 6\).*logit_tree"
    with pytest.raises(ModelError, match=reason):
        logprobs(dropping, "packed_mask")
    each, calls = logprobs(dropping, "logit_tree"), logprobs(dropping, "call_by_call")
    assert np.abs(each - calls).max() < 1e-4
    open_to_all = replace(dropping, capability=replace(dropping.capability, refusals=()))
    monkeypatch.setitem(check.AGREEMENT_LIMIT, "float32", np.inf)
    monkeypatch.setitem(check.CANARY_LIMIT, "float32", np.inf)
    assert np.abs(logprobs(open_to_all, "packed_mask") - each).max() > 0.1


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"moe_eval_capacity_factor": 1.25}, "moe_eval_capacity_factor 1.25"),
        ({"expert_capacity": 64}, "expert_capacity 64"),
        ({"capacity_factor": 1.0, "moe_drop_tokens": False}, ""),
        ({"moe_expert_capacity_factor": None}, ""),
        ({"capacity_factor": -1.0}, ""),
    ],
)
def test_a_configuration_says_whether_experts_drop_tokens(
    fields: dict[str, object], refused: str
) -> None:
    found = "; ".join(tiny.model_of(tiny.llama_config(**fields)).capability.refusals)
    assert (refused in found) if refused else not found


WINDOWED = {
    "one window for all layers": config_of(MistralConfig, sliding_window=5),
    "layers of two kinds": config_of(
        Qwen2Config,
        sliding_window=5,
        use_sliding_window=True,
        layer_types=["sliding_attention", "full_attention"],
    ),
    "soft caps": config_of(Gemma2Config, sliding_window=5, attn_logit_softcapping=2.0),
    "attention sinks": config_of(
        GptOssConfig, sliding_window=5, num_local_experts=2, num_experts_per_tok=1
    ),
}


@pytest.mark.parametrize("config", WINDOWED.values(), ids=WINDOWED)
def test_sliding_layers_count_their_window_in_depth(config: PreTrainedConfig) -> None:
    model = tiny.model_of(config)
    packed, separate = logprobs(model, "packed_mask"), logprobs(model, "logit_tree")
    assert np.abs(packed - separate).max() < 1e-4
    config = AutoConfig.for_model(**(config.to_dict() | {"sliding_window": 4096}))
    unlimited = logprobs(tiny.model_of(config), "logit_tree")
    assert np.abs(separate - unlimited).max() > 0.1


@pytest.mark.parametrize(
    "config",
    [
        config_of(MixtralConfig, num_local_experts=4, num_experts_per_tok=2),
        config_of(GraniteConfig, logits_scaling=4.0, attention_multiplier=0.2),
    ],
    ids=["experts", "scaled logits"],
)
def test_other_families_are_packed_exactly(config: PreTrainedConfig) -> None:
    model = tiny.model_of(config)
    packed, separate = logprobs(model, "packed_mask"), logprobs(model, "logit_tree")
    assert np.abs(packed - separate).max() < 1e-4


def test_flash_attention_is_refused_for_packed_rows_only(saved: Path) -> None:
    """Case T15: the kernel has no arbitrary mask and would take it for padding."""
    config = json.loads((saved / "config.json").read_text())
    config["attn_implementation"] = "flash_attention_2"
    (saved / "config.json").write_text(json.dumps(config))
    model = load_model(saved)
    with pytest.raises(ModelError, match=r"flash_attention_2 takes no 4D mask.*logit_tree"):
        logprobs(model, "packed_mask")
    tree = tiny.tree_of(LONG)
    with pytest.raises(ModelError, match="flash_attention_2 takes no 4D mask"):
        score(tree, build_view(tree, "packed_mask"), tiny.llama(), kernel="flash_attention_2")
    separate = logprobs(model, "logit_tree")
    switched = finish(score(tree, build_view(tree, "packed_mask"), model, kernel="sdpa"))
    assert np.abs(switched.logprob - separate).max() < 1e-4


def test_kernel_that_would_drop_soft_caps_is_refused() -> None:
    model, tree = tiny.model_of(WINDOWED["soft caps"]), tiny.tree_of(LONG)
    for method in ("packed_mask", "logit_tree"):
        with pytest.raises(ModelError, match=r"kernel sdpa cannot apply.*expected one of eager"):
            score(tree, build_view(tree, method), model, kernel="sdpa")


def test_scores_carry_model_kernel_dtype_and_device() -> None:
    tree, model = tiny.tree_of(LONG), tiny.llama()
    scores = finish(score(tree, build_view(tree, "packed_mask"), model, kernel="eager"))
    assert (scores.method, scores.model) == ("packed_mask", "llama@random")
    assert (scores.kernel, scores.dtype, scores.device) == ("eager", "float32", "cpu")
    assert scores.floor is model.proofs["eager packed"]


def test_bfloat16_scores_stay_near_float32() -> None:
    tree = tiny.tree_of(LONG)
    narrow = tiny.model_of(tiny.llama_config(initializer_range=0.1), dtype=torch.bfloat16)
    scores = finish(score(tree, build_view(tree, "packed_mask"), narrow))
    assert scores.logprob.dtype == np.float32
    assert scores.dtype == "bfloat16"
    separate = finish(score(tree, build_view(tree, "logit_tree"), narrow))
    assert np.abs(scores.logprob - separate.logprob).max() < 0.5


def test_a_checkpoint_of_all_weights_replaces_them(saved: Path, tmp_path: Path) -> None:
    torch.manual_seed(8)
    other = tiny.module_of(tiny.llama_config())
    with torch.no_grad():
        other.lm_head.weight.mul_(2)
    other.save_pretrained(tmp_path / "rightmost")
    plain, changed = load_model(saved), load_model(saved, adapter=tmp_path / "rightmost")
    ids = torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        expected = other(input_ids=ids).logits
        assert torch.allclose(changed.module(input_ids=ids).logits, expected, atol=1e-5)
    assert changed.name == "tiny-llama+rightmost"
    assert changed.base == plain.base == plain.name
    assert changed.revision != plain.revision
    tiny.module_of(tiny.llama_config(num_hidden_layers=1)).save_pretrained(tmp_path / "small")
    with pytest.raises(ModelError, match="num_hidden_layers is 1"):
        load_model(saved, adapter=tmp_path / "small")
