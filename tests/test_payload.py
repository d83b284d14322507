from __future__ import annotations

import base64
import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mwviz.demos import DEMOS, Demo, open_demo
from mwviz.numberpacking import SHIPPED, numbers_of, send
from mwviz.packing import Sections, packed
from mwviz.payload import (
    CONTINUED,
    KINDS,
    MAGIC,
    ROLES,
    VERSION,
    Contents,
    birth_ranks,
    id_of,
    node_kinds,
    pack,
    pack_contents,
)
from mwviz.quantise import INSIDE, UNCOVERED, Quantised, quantise, restore
from mwviz.rollout import Span
from mwviz.tokens import CallTokens, Encoding
from mwviz.trie import expand
from mwviz.views import METHODS, build_view
from tests.browser.trees import UnitCall, demo_calls, unit_contents, unit_tree, word
from tests.test_mask_in_browser import able

FIXED = 4096
"""Bytes of the header: names and the table of sections."""
PER_TOKEN = {"token", "vocabulary_id", "vocabulary_length", "vocabulary_text", "logprob"}
PLAIN = {"u8": "<u1", "u16": "<u2"}


class Decoded(NamedTuple):
    header: dict[str, object]
    arrays: dict[str, npt.NDArray[np.integer]]


def decode(payload: bytes) -> Decoded:
    """Reads a payload by the layout its module documents, independently of the browser."""
    assert payload[:4] == MAGIC
    version, size, name = struct.unpack("<II8s", payload[4:20])
    assert version == VERSION
    assert size % 4 == 0
    assert name == hashlib.blake2b(payload[20:], digest_size=8).digest()
    header = json.loads(payload[20 : 20 + size])
    body = payload[20 + size :]
    arrays = {}
    for name, (kind, offset, count) in header["sections"].items():
        assert offset % 4 == 0
        if kind in PLAIN:
            arrays[name] = np.frombuffer(body, dtype=PLAIN[kind], count=count, offset=offset)
        else:
            numbers = undone(body[offset:], count)
            arrays[name] = np.array(numbers, dtype={"u32": np.uint32, "i32": np.int32}[kind])
    return Decoded(header, arrays)


def undone(body: bytes, count: int) -> list[int]:
    """Numbers from zigzag differences in groups of seven bits, the lowest first."""
    numbers: list[int] = []
    at = 0
    for _ in range(count):
        code, shift = 0, 0
        while True:
            byte = body[at]
            at += 1
            code |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        step = -(code + 1) // 2 if code & 1 else code // 2
        numbers.append((numbers[-1] if numbers else 0) + step)
    return numbers


def texts_of(decoded: Decoded) -> list[bytes]:
    lengths = decoded.arrays["vocabulary_length"].astype(np.int64)
    lengths[lengths == 255] = decoded.arrays["long_length"]
    ends = np.cumsum(lengths)
    text = decoded.arrays["vocabulary_text"].tobytes()
    pieces = [text[end - size : end] for end, size in zip(ends, lengths, strict=True)]
    return [pieces[index] for index in decoded.arrays["token"].tolist()]


blocks = st.lists(st.integers(0, 9), max_size=6)
unit_calls = st.lists(st.builds(UnitCall, blocks, blocks, st.integers(0, 1)), max_size=6)


@given(calls=unit_calls)
def test_payload_gives_back_segments_calls_and_births(calls: list[UnitCall]) -> None:
    tree = unit_tree(calls)
    decoded = decode(pack_contents(Contents(tree, word)))
    arrays = decoded.arrays
    assert decoded.header["nodes"] == tree.size
    assert decoded.header["lineages"] == list(tree.lineages)
    for name, stored in {
        "segment_start": tree.start,
        "segment_parent": tree.parent,
        "segment_first_call": tree.first_call,
        "call_prompt": tree.prompt_length,
        "call_tip": tree.tip,
        "call_lineage": tree.lineage,
    }.items():
        np.testing.assert_array_equal(arrays[name], stored)
    born = np.diff(arrays["born_start"], append=len(tree.birth))
    kinds = np.repeat(arrays["born_kind"], born)
    np.testing.assert_array_equal(kinds, node_kinds(tree)[tree.birth])
    lengths = np.diff(arrays["rank_start"], append=tree.size)
    ranks = expand(arrays["rank_value"].astype(np.int64), lengths)
    np.testing.assert_array_equal(ranks, birth_ranks(tree))


@given(calls=unit_calls)
def test_payload_gives_back_the_rows_and_edges_of_each_view(calls: list[UnitCall]) -> None:
    tree = unit_tree(calls)
    views = tuple(
        build_view(tree, method.name)
        for method in METHODS
        if not method.exact and not method.student and able(tree, method.name)
    )
    arrays = decode(pack_contents(Contents(tree, word, views=views))).arrays
    for view in views:
        told = {
            name.removeprefix(f"{view.method}:"): array.astype(np.int64)
            for name, array in arrays.items()
            if name.startswith(f"{view.method}:")
        }
        runs, edges = np.cumsum(told["row_runs"]), np.cumsum(told["row_edges"])
        for index, row in enumerate(view.rows):
            run = slice(runs[index] - told["row_runs"][index], runs[index])
            np.testing.assert_array_equal(told["run_node"][run], row.first_node)
            np.testing.assert_array_equal(told["run_length"][run], row.length)
            np.testing.assert_array_equal(told["run_position"][run], row.first_position)
            np.testing.assert_array_equal(told["run_until"][run], row.until)
            edge = slice(edges[index] - told["row_edges"][index], edges[index])
            counts = told["edge_count"][edge]
            pairs = zip(
                expand(told["edge_query"][edge], counts).tolist(),
                expand(told["edge_target"][edge], counts).tolist(),
                strict=True,
            )
            assert sorted(pairs) == sorted(
                zip(row.edges.query.tolist(), row.edges.target.tolist(), strict=True)
            )


@given(
    values=st.lists(st.integers(0, 2**32 - 1)), signed=st.lists(st.integers(-(2**31), 2**31 - 1))
)
def test_differences_give_back_every_number(values: list[int], signed: list[int]) -> None:
    sections: Sections = {
        "a": np.array(values, dtype=np.uint32),
        "b": np.array(signed, dtype=np.int32),
    }
    table, body = packed(sections)
    for name, wanted in (("a", values), ("b", signed)):
        _, offset, count = table[name]
        assert undone(body[offset:], count) == wanted


@given(texts=st.lists(st.binary(max_size=600), min_size=1, max_size=8))
def test_payload_gives_back_each_tokens_bytes(texts: list[bytes]) -> None:
    tree = unit_tree([UnitCall(list(range(len(texts))), [])])
    decoded = decode(pack_contents(Contents(tree, texts.__getitem__)))
    assert texts_of(decoded) == texts
    assert decoded.arrays["vocabulary_id"][decoded.arrays["token"]].tolist() == tree.ids.tolist()


def test_a_kept_tail_is_a_copy_of_what_was_sampled() -> None:
    tree = unit_tree([UnitCall([1, 2], [3]), UnitCall([1, 4, 3], [5])])
    named = [(int(i), KINDS[kind]) for i, kind in zip(tree.ids, node_kinds(tree), strict=True)]
    assert named == [
        (1, "given"),
        (2, "given"),
        (3, "sampled"),
        (4, "given"),
        (3, "sampled_copy"),
        (5, "sampled"),
    ]


def test_roles_are_runs_of_messages_and_say_where_one_goes_on() -> None:
    tree = unit_tree([UnitCall([1, 2], [3]), UnitCall([1, 4], [5])])
    spans = (Span(0, 2, "a", "system", ""), Span(2, 3, "b", "assistant", ""))
    quoted = (Span(0, 2, "c", "user", "summary"), Span(2, 3, "d", "tool", ""))
    told = [CallTokens((), np.empty(0, np.int32), one) for one in (spans, quoted)]
    arrays = decode(
        pack_contents(Contents(tree, word, encoding=Encoding(tuple(told), "made", "recorded")))
    ).arrays
    letters = [
        (ROLES[(code & ~CONTINUED) - 1], code >= CONTINUED) for code in arrays["role"].tolist()
    ]
    assert arrays["role_start"].tolist() == [0, 1, 2, 3, 4]
    assert letters == [("S", False), ("S", True), ("A", False), ("M", True), ("T", False)]


@given(
    drift=st.lists(st.one_of(st.floats(-30, 30, width=32), st.just(float("nan")))),
    floor=st.floats(1e-5, 0.1),
)
def test_quantised_drift_keeps_sign_floor_and_size(drift: list[float], floor: float) -> None:
    given_drift = np.array(drift, dtype=np.float32)
    told = quantise(given_drift, floor)
    back = restore(told)
    np.testing.assert_array_equal(told.codes == UNCOVERED, np.isnan(given_drift))
    inside = np.abs(given_drift.astype(np.float64)) <= floor
    np.testing.assert_array_equal(told.codes == INSIDE, inside)
    above = ~inside & ~np.isnan(given_drift)
    step = (told.scale / told.floor) ** (0.51 / 126)
    ratio = back[above] / given_drift[above]
    assert ((ratio >= 1 / step - 1e-6) & (ratio <= step + 1e-6)).all()


def test_the_largest_drift_is_kept_exactly() -> None:
    told = quantise(np.array([0.5, -7.25, 0.01], dtype=np.float32), 1e-3)
    assert told.scale == 7.25
    assert told.codes[1] == 1


@pytest.mark.parametrize("demo", DEMOS, ids=lambda demo: demo.name)
def test_payload_stays_within_its_budget(demo: Demo) -> None:
    (analysis,) = open_demo(demo).analyses
    tree = analysis.tree
    reference = analysis.scores["logit_tree"]
    compared = {name: analysis.compared(own, reference) for name, own in analysis.scores.items()}
    assert len(compared) > SHIPPED + 2
    payload = pack(analysis, ("rightmost", "replay", "packed_mask"), compared)
    text = sum(len(analysis.decoder.piece(int(token))) for token in tree.ids)
    budget = text + 2 * tree.size + 64 * len(tree.start) + SHIPPED * len(tree.token)
    assert len(payload) <= budget + FIXED
    header: dict[str, Any] = decode(payload).header
    assert set(header["numbers"]) == {"rightmost:drift", "replay:drift"}


def test_the_mask_is_described_in_the_same_bytes_for_ten_times_the_tokens() -> None:
    sizes = []
    for scale in (40, 400):
        tree = unit_tree(demo_calls(scale=scale))
        views = tuple(build_view(tree, name) for name in ("rightmost", "replay", "packed_mask"))
        arrays = decode(pack_contents(Contents(tree, word, views=views))).arrays
        described = [a for n, a in arrays.items() if n not in PER_TOKEN]
        sizes.append(sum(array.nbytes for array in described))
        assert sizes[-1] <= 64 * len(tree.start)
    assert sizes[1] == sizes[0]


def test_the_front_ends_fixture_is_what_pack_writes() -> None:
    texts = {1: b"one", 2: b"two", 3: b"three", 4: b"four", 5: b"five", 8: b"x" * 300}
    texts |= {6: "é".encode()[:1], 7: "é".encode()[1:]}
    tree = unit_tree(
        [UnitCall([1, 2], [3]), UnitCall([1, 4, 3], [5]), UnitCall([6, 7], [8], lineage=1)]
    )
    contents = Contents(
        tree,
        texts.__getitem__,
        views=(build_view(tree, "rightmost"), build_view(tree, "packed_mask")),
    )
    fixture = Path(__file__).parent / "frontend" / "kept_tail.payload"
    assert pack_contents(contents) == fixture.read_bytes()


def test_views_that_differ_in_their_loss_alone_share_their_rows() -> None:
    tree = unit_tree(demo_calls(12))
    names = ("rightmost", "sdcc", "replay", "sdcc_replay")
    views = tuple(build_view(tree, name) for name in names)
    decoded = decode(pack_contents(Contents(tree, word, views=views)))
    told = decoded.header["views"]
    assert isinstance(told, list)
    assert [view.get("rows") for view in told] == [None, "rightmost", None, "replay"]
    assert not [name for name in decoded.arrays if name.startswith("sdcc")]
    alone = decode(pack_contents(Contents(tree, word, views=views[1:2])))
    assert "sdcc:run_node" in alone.arrays


def test_the_drift_of_two_views_is_held_and_every_other_number_named() -> None:
    contents = unit_contents(demo_calls(12))
    recorded = np.linspace(-9, 0, len(contents.tree.token), dtype=np.float32)
    backwards = {name: contents.comparisons[name] for name in reversed([*contents.comparisons])}
    told = replace(contents, tree=replace(contents.tree, logprob=recorded), comparisons=backwards)
    header: dict[str, Any] = decode(pack_contents(told)).header
    assert list(header["numbers"]) == ["rightmost:drift", "replay:drift"]
    named = set(header["known"])
    assert named == set(numbers_of(told.tree, told.comparisons))
    assert {"packed_mask:drift", "replay:change", "logit_tree:entropy", "logprob"} <= named
    silent: dict[str, Any] = decode(pack_contents(contents)).header
    assert "logprob" not in silent["known"]
    assert id_of(pack_contents(contents)) != id_of(pack_contents(told))


def test_what_is_asked_for_is_a_byte_a_token() -> None:
    (analysis,) = open_demo(DEMOS[0]).analyses
    reference = analysis.scores["logit_tree"]
    compared = analysis.compared(analysis.scores["rightmost"], reference)
    numbers = numbers_of(analysis.tree, {"rightmost": compared})
    wanted = {
        "rightmost:drift": compared.table["drift"],
        "rightmost:gap": compared.table["gap"],
        "rightmost:change": compared.table["entropy_change"],
        "logit_tree:entropy": reference.entropy,
        "logit_tree:logprob": reference.logprob,
        "logprob": analysis.tree.logprob,
    }
    sent = send(numbers, [*wanted, "replay:drift", "nonsense"])
    assert set(sent) == set(wanted) == set(numbers)
    for name, told in sent.items():
        codes = np.frombuffer(base64.b64decode(told.codes), dtype=np.uint8)
        assert len(codes) == len(analysis.tree.token)
        back = restore(Quantised(codes, told.floor, told.scale))
        np.testing.assert_allclose(
            back, np.asarray(wanted[name]), rtol=0.08, atol=2 * told.floor, err_msg=name
        )


def test_what_nothing_is_known_of_is_not_named() -> None:
    contents = unit_contents(demo_calls(12))
    (name, compared), *_ = contents.comparisons.items()
    table = compared.table.assign(gap=np.float32("nan"))
    numbers = numbers_of(contents.tree, {name: replace(compared, table=table)})
    assert set(numbers) == {
        f"{name}:drift",
        f"{name}:change",
        "logit_tree:logprob",
        "logit_tree:entropy",
    }
