"""Rollouts whose cache kept its entries: what is true for them, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mwviz
from mwviz.demos import DEMOS
from mwviz.engine.model import Model
from mwviz.errors import TraceError, ViewError
from mwviz.pairs import count_pairs
from mwviz.rollout import Rollout
from mwviz.scoring import report, score_methods
from mwviz.semantics import RECOMPUTE, Taken, said_of, with_words
from mwviz.simulate import simulate
from mwviz.summary import warnings
from mwviz.tree import EvictionTree, build_tree
from mwviz.views import METHODS, Row, build_view, exact_methods
from mwviz.views.cache import held_rows
from tests.engine import tiny
from tests.reference import Calls
from tests.strategies import encoded, treated, unit_calls

T1: Calls = [
    ("m", [0], [1, 2, 3, 4, 5, 6, 7]),
    ("m", [0, 1, 2, 3, 4, 6, 7], [8, 9, 10]),
    ("m", [0, 1, 2, 3, 4, 6, 7, 9, 10], [11, 12]),
    ("m", [0, 1, 2, 3, 4, 6, 7, 9, 10, 12], [13]),
]
"""Theory, T1: drop 5, then 8, then 11."""


def kept(calls: Calls, word: str = "kv_orig") -> Rollout:
    return replace(encoded(calls)[0], semantics=word)  # type: ignore[arg-type]  # any word


def tree_of(calls: Calls) -> EvictionTree:
    rollout, encoding = encoded(calls)
    return build_tree(encoding, replace(rollout, semantics="kv_orig"))


def test_a_rollouts_word_counts_unless_a_call_says_otherwise() -> None:
    def taken(rollout: Rollout) -> str:
        return mwviz.analyse(rollout).tree.semantics

    assert taken(kept(T1, "unknown")) == taken(kept(T1, "re_prefill")) == "re_prefill"
    rollout = kept(T1)
    assert taken(rollout) == "kv_orig"
    own = tuple(replace(call, semantics="re_prefill") for call in rollout.calls)
    assert taken(replace(rollout, calls=own)) == "re_prefill"
    assert taken(replace(rollout, calls=(*rollout.calls[:3], own[3]))) == "mixed"
    assert taken(replace(rollout, calls=(own[0], *rollout.calls[1:]))) == "kv_orig"
    moved = replace(rollout.calls[3], semantics="kv_reindex")
    assert taken(replace(rollout, calls=(*rollout.calls[:3], moved))) == "kv_reindex"


def test_a_word_counts_at_junctions_alone() -> None:
    """Nothing is kept or lost where a prompt goes on from the context before."""
    extending: Calls = [("m", [0, 1], [2]), ("m", [0, 1, 2, 3], [4])]
    for word in ("kv_reindex", "kv_orig"):
        rollout = kept(extending, "re_prefill")
        calls = (rollout.calls[0], replace(rollout.calls[1], semantics=word))
        assert mwviz.analyse(replace(rollout, calls=calls)).tree.semantics == "re_prefill"
    assert mwviz.analyse(kept(extending, "kv_reindex")).tree.semantics == "re_prefill"


def test_the_note_is_shown_where_there_is_a_junction() -> None:
    unknown = warnings(mwviz.analyse(kept(T1, "unknown")))
    assert any("taken as re-prefill" in said for said in unknown)
    assert any("union_mask is the reference" in said for said in warnings(mwviz.analyse(kept(T1))))
    calm = mwviz.analyse(kept(T1[:1], "unknown"))
    assert not any("re-prefill" in said for said in warnings(calm))


def test_kept_entries_at_their_positions_are_the_truth() -> None:
    tree = tree_of(T1)
    own = count_pairs(tree, build_view(tree, "union_mask"))
    assert own.totals == {name: 81 if name == "agree" else 0 for name in own.totals}
    assert not own.diverging.any()
    anew = count_pairs(tree, build_view(tree, "logit_tree"))
    assert anew.totals["agree"] == 81
    assert anew.totals["shifted"] > 0
    assert anew.totals["tainted"] > 0
    assert tree.ids[tree.token[anew.diverging]].tolist() == [8, 9, 10, 11, 12, 13]
    replayed = count_pairs(tree, build_view(tree, "replay"))
    assert (replayed.totals["stale"], replayed.totals["shifted"]) == (10, 0)


class Counted:
    """A row token by token against what a cache held: `born` is a token's place in it."""

    def __init__(self, tree: EvictionTree, row: Row, cache: int) -> None:
        truth = held_rows(tree)[cache]
        held = {int(tree.origin[node]): place for place, node in enumerate(truth.nodes)}
        self.alive = truth.visible_until
        origins = tree.origin.tolist()
        self.place = [held.get(origin, -1 - origin) for origin in origins]
        self.born = [self.place[int(node)] for node in row.nodes]
        self.positions, self.until = row.positions.tolist(), row.visible_until.tolist()
        self.known: dict[int, bool] = {}

    def tainted(self, key: int) -> bool:
        if key not in self.known:
            saw = [k for k in range(key) if self.until[k] > key]
            found = {(self.born[k], self.positions[key] - self.positions[k]) for k in saw}
            own = self.born[key]
            true = {(b, own - b) for b in range(own) if self.alive[b] > own}
            self.known[key] = found != true or any(self.tainted(k) for k in saw)
        return self.known[key]

    def flags(self, tree: EvictionTree, query: int, target: int) -> tuple[int, int]:
        """(shifted, tainted) keys of one target."""
        if tree.query[target] < 0:
            return 0, 0
        own, at = self.place[int(tree.query[target])] + 1, self.positions[query] + 1
        true = {self.place[int(node)] for node in tree.path(int(tree.query[target]))}
        keys = [k for k in range(query + 1) if self.until[k] > query and self.born[k] in true]
        shifted = sum(at - self.positions[k] != own - self.born[k] for k in keys)
        return shifted, sum(self.tainted(k) for k in keys)


@pytest.mark.parametrize(
    "method", ["rightmost", "replay", "logit_tree", "packed_mask", "union_mask"]
)
@settings(max_examples=300, deadline=None)
@given(calls=unit_calls(), word=st.sampled_from(["kv_orig", "mixed"]))
def test_flags_equal_a_count_token_by_token(method: str, calls: Calls, word: Taken) -> None:
    rollout, encoding = encoded(calls)
    tree = build_tree(encoding, treated(rollout, word))
    assume(tree.keeps_entries)
    try:
        assume(build_view(tree, "union_mask").rows)
    except ViewError:
        assume(False)
    view = build_view(tree, method)
    pairs = count_pairs(tree, view)
    for row in view.rows:
        counted = [Counted(tree, row, cache) for cache in range(max(tree.cache) + 1)]
        for query, target in zip(row.edges.query.tolist(), row.edges.target.tolist(), strict=True):
            own = counted[int(tree.cache[tree.call[target]])]
            found = int(pairs.of("shifted")[target]), int(pairs.of("tainted")[target])
            assert found == own.flags(tree, query, target), target
    if method == "union_mask":
        assert not pairs.diverging.any()


@pytest.fixture
def model(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tiny.llama()


def test_union_mask_judges_all_and_recomputes_are_named(model: Model) -> None:
    analysis = mwviz.analyse(kept(T1))
    assert analysis.resolve(model, "exact") == "union_mask"
    methods = ("rightmost", "logit_tree", "union_mask", "exact")
    results = [step.result for step in score_methods(analysis, model, methods, kernel="auto")][-1]
    assert results is not None
    told = {name: report(result) for name, result in results.items()}
    assert {numbers["reference"] for numbers in told.values()} == {"union_mask"}
    assert told["exact"]["method"] == "union_mask"
    assert RECOMPUTE in told["logit_tree"]["notes"]
    assert told["union_mask"]["notes"] == []
    assert told["logit_tree"]["max_abs_drift"] > 0.1
    assert told["logit_tree"]["diverging"] == 6
    again = mwviz.analyse(kept(T1)).score(model, "logit_tree")
    assert again.notes == (RECOMPUTE,)
    plain = mwviz.analyse(kept(T1, "re_prefill")).score(model, "logit_tree")
    assert plain.notes == ()


@pytest.mark.parametrize("everywhere", [True, False])
def test_what_no_row_can_express_shows_structure_and_is_not_scored(
    everywhere: bool, model: Model
) -> None:
    rollout = kept(T1, "kv_reindex" if everywhere else "kv_orig")
    if not everywhere:
        calls = (*rollout.calls[:3], replace(rollout.calls[3], semantics="kv_reindex"))
        rollout = replace(rollout, calls=calls)
    analysis = mwviz.analyse(rollout)
    assert len(analysis.junction_list) == 3
    assert analysis.pairs("rightmost").totals["erased"] == 5
    for method in ("exact", "logit_tree", "rightmost"):
        with pytest.raises(ViewError, match=r"cannot be scored: .*kv_reindex.*only structure"):
            analysis.score(model, method)


def test_a_cache_that_nothing_can_hold_has_no_reference() -> None:
    """A summary in front of a kept tail: union_mask refuses it by name, so nothing is scored."""
    calls: Calls = [("m", [0, 1], [2, 3]), ("m", [0, 5, 2, 3], [4])]
    analysis = mwviz.analyse(kept(calls))
    assert analysis.pairs("rightmost").totals["future"] == 2
    with pytest.raises(ViewError, match="union_mask cannot express"):
        analysis.score(tiny.llama(), "exact")


def test_an_sdcc_teacher_is_what_the_cache_held() -> None:
    from mwviz.engine.sdcc import measure_consistency

    tree, model = tree_of(T1), tiny.llama()
    view = build_view(tree, "union_mask")
    chosen = np.array([8, 9, 12])
    exact = measure_consistency(tree, view, model, consistency=chosen)
    anew = measure_consistency(
        replace(tree, semantics="re_prefill"), view, model, consistency=chosen
    )
    assert exact.kl.max() < 1e-5
    assert anew.kl.max() > 0.01


def test_the_truth_of_each_semantics_is_named_in_one_place() -> None:
    assert exact_methods("re_prefill")[0] == "logit_tree"
    assert set(exact_methods("re_prefill")) == {m.name for m in METHODS if m.exact}
    assert exact_methods("kv_orig") == exact_methods("mixed") == ("union_mask",)
    assert exact_methods("kv_reindex") == ()


@pytest.mark.parametrize("size", [100, 150, 220])
def test_text_that_repeats_what_a_cache_holds_is_new_text(size: int) -> None:
    """The demo repeats phrases; a place of the whole context is one token, and no other."""
    (source,) = mwviz.load(DEMOS[0].path.with_name("control.jsonl")).rollouts
    whole = mwviz.analyse(source).encoding
    made = mwviz.analyse(simulate(source, "streaming-llm", size=size))
    origin_of: dict[int, int] = {}
    for call, old in enumerate(whole.calls):
        end = old.prompt_length
        kept = [*range(min(4, end)), *range(max(4, end - size), end), *range(end, len(old.context))]
        origins = made.tree.origin[made.tree.context(call)].tolist()
        for place, origin in zip(kept, origins, strict=True):
            assert origin_of.setdefault(place, origin) == origin
    assert len(set(origin_of.values())) == len(origin_of)
    assert made.view("union_mask").coverage == 1


def test_a_user_can_say_how_caches_were_treated() -> None:
    told = with_words(kept(T1, "unknown"), ["kv_orig", "re_prefill:1,3"])
    assert told.semantics == "kv_orig"
    assert [call.semantics for call in told.calls] == [None, "re_prefill", None, "re_prefill"]
    again = with_words(told, ["re_prefill"])
    assert [said_of(call, again) for call in again.calls] == ["re_prefill"] * 4
    for wrong, message in (
        ("kv", "'kv': expected one of re_prefill, kv_orig"),
        ("kv_orig:4", "no call '4'.*from 0 to 3"),
        ("kv_orig:x", "no call 'x'"),
    ):
        with pytest.raises(TraceError, match=message):
            with_words(told, [wrong])
