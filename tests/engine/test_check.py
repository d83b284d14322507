from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AttentionInterface, Gemma2Config

import mwviz
from mwviz.engine import check, floors, fused, kernels, sdcc
from mwviz.engine.effect import Hidden, effects
from mwviz.engine.losses import backward
from mwviz.engine.model import Model, wrap
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz.errors import ModelError
from mwviz.views import build_view
from tests.engine import tiny
from tests.reference import Calls
from tests.strategies import encoded

ATTENTION = AttentionInterface()  # type: ignore[no-untyped-call]  # transformers'


def causal_only(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    _mask: torch.Tensor | None,
    **arguments: object,
) -> tuple[torch.Tensor, None]:
    """A kernel that takes any mask and applies none: what a careless wrapper does."""
    attend = ATTENTION["sdpa"]
    mixed: tuple[torch.Tensor, None] = attend(module, query, key, value, None, **arguments)
    return mixed


def drops_trunk(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    **arguments: object,
) -> tuple[torch.Tensor, None]:
    """A kernel that isolates branches but loses the first token of the trunk for all others."""
    hidden = mask.clone()
    hidden[..., 1:, 0] = torch.finfo(mask.dtype).min
    mixed: tuple[torch.Tensor, None] = ATTENTION["sdpa"](
        module, query, key, value, hidden, **arguments
    )
    return mixed


@pytest.fixture
def broken_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    registered = ATTENTION["mwviz_sdpa"]
    AttentionInterface.register("mwviz_sdpa", request.param)
    yield
    AttentionInterface.register("mwviz_sdpa", registered)


def packed_scores(model: Model) -> None:
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    list(score(tree, build_view(tree, "packed_mask"), model))


@pytest.mark.parametrize("broken_kernel", [causal_only], indirect=True)
@pytest.mark.usefixtures("broken_kernel")
def test_a_kernel_that_ignores_the_mask_is_caught() -> None:
    with pytest.raises(ModelError, match="packing not isolated under sdpa"):
        packed_scores(tiny.llama())
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    model = tiny.llama()
    with pytest.raises(ModelError, match="packing not isolated under sdpa"):
        backward(tree, build_view(tree, "packed_mask"), model)
    assert all(p.grad is None for p in model.module.parameters())
    list(score(tree, build_view(tree, "logit_tree"), model))


@pytest.mark.parametrize("broken_kernel", [drops_trunk], indirect=True)
@pytest.mark.usefixtures("broken_kernel")
def test_isolated_but_wrong_scores_are_caught() -> None:
    with pytest.raises(ModelError, match="packed_mask and logit_tree differ by"):
        packed_scores(tiny.llama())


def test_a_sound_kernel_passes_and_is_proved_once() -> None:
    model = tiny.llama()
    packed_scores(model)
    (proof,) = model.proofs.values()
    assert proof.targets == check.FIRST + check.SECOND
    assert 0 < proof.p999 < 1e-4
    before = proof
    packed_scores(model)
    assert list(model.proofs.values()) == [before]
    assert model.proofs["sdpa packed"] is before


@pytest.mark.parametrize("method", ["packed_mask", "logit_tree"])
def test_what_will_run_compiled_is_proved_so(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the rows; only a card compiles layers, so here they run as they are."""
    monkeypatch.setattr(kernels, "fuses", lambda *_: True)
    monkeypatch.setattr(fused, "_compiled", fused._run)
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    view, taught = build_view(tree, method), np.arange(len(tree.token))
    keys = (Hidden("first", np.array([0])),)
    for run in (
        lambda model: finish(score(tree, view, model)),
        lambda model: effects(tree, view, model, target=3, hidden=keys),
        lambda model: backward(tree, view, model),
        lambda model: sdcc.backward(tree, view, model, consistency=taught, strength=1.0),
        lambda model: sdcc.measure_consistency(tree, view, model, consistency=taught),
    ):
        model = tiny.llama()
        run(model)
        assert model.proofs
        assert all(kernel.endswith(" compiled") for kernel in model.proofs)


def test_logits_changed_in_an_unknown_way_are_refused() -> None:
    module = tiny.module_of(tiny.llama_config())
    whole = module.forward

    def doubled(*args: object, **kwargs: object) -> object:
        output = whole(*args, **kwargs)
        output.logits = output.logits * 2
        return output

    module.forward = doubled
    model = wrap(module, name="strange", revision="random")
    with pytest.raises(ModelError, match="changes its logits in a way that mwviz does not know"):
        packed_scores(model)


def test_known_logit_changes_are_applied() -> None:
    config = Gemma2Config(
        vocab_size=tiny.VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        final_logit_softcapping=3.0,
    )
    packed_scores(tiny.model_of(config))


def test_built_in_tree_is_the_tree_of_its_two_calls() -> None:
    tree = check.built_in_tree(1000)
    trunk, first = check.TRUNK, check.TRUNK + check.FIRST
    calls = (
        (tree.ids[:trunk], tree.ids[trunk:first]),
        (tree.ids[:trunk], tree.ids[first:]),
    )
    built = tiny.tree_of(calls)
    for name in ("ids", "start", "parent", "depth", "exit", "query", "token", "call", "offset"):
        assert np.array_equal(getattr(tree, name), getattr(built, name)), name


def test_floor_is_measured_on_whole_rows_up_to_the_limit() -> None:
    tree, model = tiny.tree_of(tiny.RUNNING_EXAMPLE), tiny.llama()
    packed, separate = build_view(tree, "packed_mask"), build_view(tree, "logit_tree")
    whole = floors.measure_floor(tree, model, packed, separate)
    part = floors.measure_floor(tree, model, packed, separate, limit=8)
    assert whole.targets == len(tree.token) == 13
    assert part.targets == 10
    assert 0 < whole.p999 < 2e-5
    wrong = floors.measure_floor(tree, model, tiny.wrong_positions(tree), separate)
    assert wrong.p999 > 0.1


def test_floor_of_a_rollout_without_targets_is_zero() -> None:
    tree = tiny.tree_of((([1, 2], []),))
    views = build_view(tree, "packed_mask"), build_view(tree, "logit_tree")
    assert floors.measure_floor(tree, tiny.llama(), *views).targets == 0


def test_each_kernel_has_a_floor_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    model = tiny.llama()
    calls: Calls = [(None, list(prompt), list(said)) for prompt, said in tiny.RUNNING_EXAMPLE]
    analysis = mwviz.analyse(encoded(calls)[0])
    tree = analysis.tree
    for kernel in ("sdpa", "eager"):
        found = analysis.score(model, "rightmost", kernel=kernel).floor
        packed, separate = build_view(tree, "packed_mask"), build_view(tree, "logit_tree")
        assert found == floors.measure_floor(tree, model, packed, separate, kernel=kernel)
        assert found.targets == len(tree.token)
    assert list(model.noise) == ["sdpa", "eager"]


def test_the_floor_is_pooled_over_rollouts_until_enough_targets_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(floors, "FLOOR_TARGETS", 20)
    model = tiny.llama()
    alone: list[float] = []
    pooled = []
    for shift in (0, 20, 0, 40):
        calls: Calls = [
            (None, [shift + unit for unit in prompt], [shift + unit for unit in said])
            for prompt, said in tiny.RUNNING_EXAMPLE
        ]
        analysis = mwviz.analyse(encoded(calls)[0])
        views = analysis.view("packed_mask"), analysis.view("logit_tree")
        alone.append(floors.measure_floor(analysis.tree, model, *views).p999)
        pooled.append(analysis.score(model, "rightmost").floor)
    # The second one adds whole branches until 20 are reached, the last one nothing.
    assert [floor.targets for floor in pooled] == [13, 20, 13, 20]
    assert pooled[0].p999 == alone[0]
    assert pooled[1].p999 >= 0.99 * alone[0]


def test_dropout_that_is_on_is_named() -> None:
    model = tiny.model_of(tiny.llama_config(attention_dropout=0.5))
    model.module.train()
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    for method in ("packed_mask", "logit_tree"):
        with pytest.raises(ModelError, match=r"two passes .* dropout or router jitter is on"):
            score(tree, build_view(tree, method), model)
    model.module.train(mode=False)
    assert finish(score(tree, build_view(tree, "packed_mask"), model)).floor.threshold < 1e-3
