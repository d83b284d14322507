from __future__ import annotations

import pytest
import torch

from mwviz.engine import attention, fused, losses, vocabulary
from mwviz.engine.model import MemoryShortageError
from mwviz.engine.nll import weighted_nll
from mwviz.engine.vocabulary import Head
from mwviz.views import build_view
from tests.engine import tiny

WIDTH, SIZE, TARGETS = 8, 40, 23


def head(scale: float, cap: float | None, *, bias: bool) -> Head:
    torch.manual_seed(4)
    weight = torch.randn(SIZE, WIDTH, dtype=torch.float64, requires_grad=True)
    offset = torch.randn(SIZE, dtype=torch.float64, requires_grad=True) if bias else None
    return Head(weight=weight, bias=offset, scale=scale, cap=cap)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("scale", "cap"), [(1.0, None), (0.25, None), (1.0, 3.0), (2.0, 5.0)])
def test_chunked_loss_has_the_plain_loss_and_gradient(
    scale: float, cap: float | None, bias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabulary, "CHUNK_NUMBERS", 7 * SIZE)
    found = []
    for chunked in (True, False):
        out = head(scale, cap, bias=bias)
        hidden = torch.randn(TARGETS, WIDTH, dtype=torch.float64, requires_grad=True)
        tokens = torch.randint(SIZE, (TARGETS,))
        weights = torch.rand(TARGETS, dtype=torch.float64)
        if chunked:
            loss = weighted_nll(out, hidden, tokens, weights)
        else:
            nll = torch.nn.functional.cross_entropy(out.logits(hidden), tokens, reduction="none")
            loss = (weights * nll).sum()
        (2 * loss).backward()  # type: ignore[no-untyped-call]  # torch's
        leaves = (hidden, out.weight, *(() if out.bias is None else (out.bias,)))
        found.append((loss.detach(), *(leaf.grad for leaf in leaves)))
    for one, two in zip(*found, strict=True):
        assert one is not None
        assert two is not None
        assert torch.allclose(one, two, rtol=1e-10, atol=1e-12)


def test_only_what_needs_a_gradient_gets_one() -> None:
    out = head(1.0, None, bias=False)
    out.weight.requires_grad_(False)
    hidden = torch.randn(TARGETS, WIDTH, dtype=torch.float64, requires_grad=True)
    tokens, weights = torch.zeros(TARGETS, dtype=torch.int64), torch.ones(TARGETS)
    weighted_nll(out, hidden, tokens, weights.double()).backward()  # type: ignore[no-untyped-call]
    assert out.weight.grad is None
    assert hidden.grad is not None


@pytest.mark.parametrize("method", ["packed_mask", "logit_tree"])
def test_layers_run_twice_give_the_same_gradient(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    found = []
    for again in (False, True):
        monkeypatch.setattr("mwviz.engine.memory.recomputes", lambda *_, again=again, **__: again)
        model = tiny.gpt2()
        losses.backward(tree, build_view(tree, method), model)
        parts = [p.grad for p in model.module.parameters() if p.grad is not None]
        found.append(torch.cat([part.flatten() for part in parts]))
        assert not any("forward" in vars(layer) for layer in fused.decoder_layers(model.module))
    assert torch.allclose(found[0], found[1], rtol=1e-9, atol=1e-12)


def test_the_librarys_own_checkpointing_keeps_the_mask() -> None:
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    found = []
    for checkpointing in (False, True):
        model = tiny.llama()
        model.module.train()
        if checkpointing:
            model.module.gradient_checkpointing_enable()  # type: ignore[no-untyped-call]
        losses.backward(tree, build_view(tree, "packed_mask"), model)
        assert fused.checkpoints(model.module) is checkpointing
        parts = [p.grad for p in model.module.parameters() if p.grad is not None]
        found.append(torch.cat([part.flatten() for part in parts]))
    assert torch.allclose(found[0], found[1], rtol=1e-4, atol=1e-6)


def test_a_row_that_does_not_fit_is_run_again_with_less(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tiny.tree_of(tiny.RUNNING_EXAMPLE)
    view = build_view(tree, "packed_mask")
    expected = losses.backward(tree, view, tiny.llama())
    run, asked = attention.hidden_states, []

    def short(*inputs: object, recompute: bool = False, **named: object) -> torch.Tensor:
        if "compiled" not in named:
            asked.append(recompute)
            if not recompute:
                raise MemoryShortageError("full")
        return run(*inputs, recompute=recompute, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(attention, "hidden_states", short)
    assert losses.backward(tree, view, tiny.llama()) == pytest.approx(expected, abs=1e-6)
    assert asked == [False, True]
