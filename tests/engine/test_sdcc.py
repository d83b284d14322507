from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from mwviz.engine import sdcc, vocabulary
from mwviz.engine.losses import backward
from mwviz.engine.model import Model
from mwviz.pairs import count_pairs
from mwviz.sdcc import consistency_targets
from mwviz.trie import Longs
from mwviz.views import build_view
from tests.engine import tiny

TREE = tiny.tree_of(tiny.RUNNING_EXAMPLE)
STRENGTH = 0.1


def targets_of(method: str) -> Longs:
    view = build_view(TREE, method)
    return consistency_targets(view, count_pairs(TREE, view))


def gradient(model: Model) -> npt.NDArray[np.float64]:
    parts = [p.grad for p in model.module.parameters() if p.grad is not None]
    return torch.cat([part.double().flatten() for part in parts]).numpy()


def plain_logprobs(model: Model, context: list[int]) -> torch.Tensor:
    """(V,): what one plain forward pass over a context says about the next token."""
    logits = model.module(input_ids=torch.tensor([context])).logits[0, -1]
    result: torch.Tensor = logits.double().log_softmax(-1)
    return result


def contexts(method: str) -> list[tuple[list[int], list[int]]]:
    """(true context, ids before the token in the student's row) of every target of C."""
    (row,) = build_view(TREE, method).rows
    place = dict(zip(row.edges.target.tolist(), row.edges.query.tolist(), strict=True))
    ids = TREE.ids[row.nodes].tolist()
    return [
        (TREE.ids[TREE.path(int(TREE.query[t]))].tolist(), ids[: place[int(t)] + 1])
        for t in targets_of(method)
    ]


def plain_loss(model: Model, method: str, *, stop: bool = True) -> torch.Tensor:
    """Theory, section 5, written out with one forward pass a context and all logits kept."""
    (row,) = build_view(TREE, method).rows
    ids = TREE.ids[row.nodes].tolist()
    loss = torch.zeros((), dtype=torch.float64)
    for query, target in zip(row.edges.query, row.edges.target, strict=True):
        said = plain_logprobs(model, ids[: query + 1])
        loss = loss - said[int(TREE.ids[TREE.token[target]])]
    for true, seen in contexts(method):
        teacher = plain_logprobs(model, true)
        teacher = teacher.detach() if stop else teacher
        loss = loss + STRENGTH * (teacher.exp() * (teacher - plain_logprobs(model, seen))).sum()
    return loss / len(row.edges.target)


def trained(model: Model, method: str, strength: float = STRENGTH) -> float:
    return sdcc.backward(
        TREE,
        build_view(TREE, method),
        model,
        consistency=targets_of(method),
        strength=strength,
    )


@pytest.mark.parametrize("method", ["sdcc", "sdcc_replay"])
def test_loss_and_gradient_are_those_of_the_definition(method: str) -> None:
    model, plain = tiny.gpt2(), tiny.gpt2()
    loss = trained(model, method)
    expected = plain_loss(plain, method)
    expected.backward()  # type: ignore[no-untyped-call]  # torch's
    assert loss == pytest.approx(expected.item(), rel=1e-9)
    found, truth = gradient(model), gradient(plain)
    assert np.linalg.norm(found - truth) < 1e-9 * np.linalg.norm(truth)


def test_the_teacher_gets_no_gradient() -> None:
    """With one, through its contexts or its output head, the gradient would be another."""
    model, moved = tiny.gpt2(), tiny.gpt2()
    trained(model, "sdcc")
    plain_loss(moved, "sdcc", stop=False).backward()  # type: ignore[no-untyped-call]  # torch's
    found, other = gradient(model), gradient(moved)
    assert np.linalg.norm(found - other) > 1e-3 * np.linalg.norm(found)


def test_the_kl_has_no_gradient_through_either_input_of_the_teacher() -> None:
    model = tiny.gpt2()
    out = vocabulary.head(model)
    same = torch.randn(4, out.weight.shape[1], dtype=torch.float64)
    teacher, student = same.clone().requires_grad_(), same.clone().requires_grad_()
    kl = sdcc._kl(out, teacher, student, None).sum()
    kl.backward()  # type: ignore[no-untyped-call]  # torch's
    assert teacher.grad is None
    assert student.grad is not None
    # At equal states the KL is at its minimum: any gradient would be the teacher's.
    assert student.grad.abs().max() < 1e-12
    assert model.module.lm_head.weight.grad.abs().max() < 1e-12


def test_the_teachers_pass_keeps_no_graph() -> None:
    """Its activations would otherwise be held for a backward pass that never comes."""
    taught = sdcc._teach(TREE, tiny.llama(), targets_of("sdcc"))
    assert taught.target.tolist() == targets_of("sdcc").tolist()
    assert not taught.hidden.requires_grad


@pytest.mark.parametrize(("method", "student"), [("sdcc", "rightmost"), ("sdcc_replay", "replay")])
def test_without_strength_or_targets_it_is_exactly_its_student(method: str, student: str) -> None:
    plain, weak, empty = tiny.llama(), tiny.llama(), tiny.llama()
    loss = backward(TREE, build_view(TREE, student), plain)
    assert trained(weak, method, strength=0.0) == loss
    view = build_view(TREE, method)
    nothing = np.empty(0, dtype=np.int64)
    assert sdcc.backward(TREE, view, empty, consistency=nothing, strength=STRENGTH) == loss
    for model in (weak, empty):
        assert np.array_equal(gradient(model), gradient(plain))
    assert trained(tiny.llama(), method) != loss


def test_strength_scales_the_term_over_the_loss_tokens_of_the_student() -> None:
    model = tiny.llama()
    base = trained(model, "sdcc", strength=0.0)
    kl = sdcc.measure_consistency(
        TREE, build_view(TREE, "sdcc"), model, consistency=targets_of("sdcc")
    ).kl
    for strength in (0.1, 0.7):
        expected = base + strength * float(kl.sum()) / 10
        assert trained(tiny.llama(), "sdcc", strength=strength) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("method", ["sdcc", "sdcc_replay"])
def test_the_kl_is_that_of_the_full_vocabulary_from_teacher_to_student(method: str) -> None:
    model = tiny.gpt2()
    found = sdcc.measure_consistency(
        TREE, build_view(TREE, method), model, consistency=targets_of(method)
    )
    assert found.label == sdcc.FULL
    assert found.targets.tolist() == targets_of(method).tolist()
    for kl, (true, seen) in zip(found.kl, contexts(method), strict=True):
        with torch.no_grad():
            p, q = plain_logprobs(model, true), plain_logprobs(model, seen)
        forward, backward_ = (p.exp() * (p - q)).sum(), (q.exp() * (q - p)).sum()
        assert kl == pytest.approx(float(forward), rel=1e-5)
        assert abs(float(forward - backward_)) > 1e-3 * float(forward)


def test_a_top_k_kl_is_a_lower_bound_and_says_so() -> None:
    model, view, chosen = tiny.llama(), build_view(TREE, "sdcc"), targets_of("sdcc")
    full = sdcc.measure_consistency(TREE, view, model, consistency=chosen)
    before = np.zeros(len(chosen), dtype=np.float32)
    for top in (1, 4, 16, tiny.VOCABULARY):
        found = sdcc.measure_consistency(TREE, view, model, consistency=chosen, top=top)
        assert found.label.startswith("lower bound")
        assert f"top {top}" in found.label
        assert (found.kl <= full.kl + 1e-5).all()
        assert (found.kl >= before - 1e-5).all()
        before = found.kl
    assert np.allclose(before, full.kl, atol=1e-5)


def test_chunks_and_a_branch_by_branch_teacher_change_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = tiny.gpt2()
    loss = trained(whole, "sdcc")
    monkeypatch.setattr(vocabulary, "CHUNK_NUMBERS", 2 * tiny.VOCABULARY)
    chunked = tiny.gpt2()
    assert trained(chunked, "sdcc") == pytest.approx(loss, rel=1e-12)
    assert np.allclose(gradient(chunked), gradient(whole), atol=1e-12)
    monkeypatch.setattr("mwviz.engine.feed.MAX_DENSE", 5)
    monkeypatch.setattr("mwviz.engine.choice.MAX_DENSE", 5)
    branches = tiny.gpt2()
    assert trained(branches, "sdcc") == pytest.approx(loss, rel=1e-9)
    assert np.allclose(gradient(branches), gradient(whole), atol=1e-9)


def test_what_has_left_the_row_gets_no_gradient_from_the_pull() -> None:
    """So nothing trains the model to use it where it stands: the teacher's side is held back."""
    gone = [5, 8, 11]
    for method, none in (("sdcc", True), ("packed_mask", False)):
        model = tiny.llama()
        assert not model.module.config.tie_word_embeddings
        trained(model, method)
        read = model.module.get_parameter("model.embed_tokens.weight").grad
        assert read is not None
        assert bool((read[gone] == 0).all()) is none


def test_the_pull_has_the_gradient_of_what_the_true_contexts_would_sample() -> None:
    """Of the likelihood in the student's row, averaged over the teacher's samples: no reward."""
    model = tiny.gpt2()
    out = vocabulary.head(model)
    width, words = out.weight.shape[1], out.weight.shape[0]
    teacher = torch.randn(3, width, dtype=torch.float64)
    student = torch.randn(3, width, dtype=torch.float64, requires_grad=True)
    (pull,) = torch.autograd.grad(sdcc._kl(out, teacher, student, None).sum(), student)
    expected = torch.zeros_like(pull)
    probability = out.log_softmax(teacher).exp().detach()
    for word in range(words):
        likelihood = -out.log_softmax(student)[:, word]
        (one,) = torch.autograd.grad((probability[:, word] * likelihood).sum(), student)
        expected += one
    assert torch.allclose(pull, expected, atol=1e-12)
