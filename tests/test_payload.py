from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from mwviz.payload import KINDS, MAGIC, VERSION, node_kinds, pack
from tests.browser.trees import UnitCall, demo_calls, unit_tree, word

TYPES = {"u8": "<u1", "u32": "<u4", "i32": "<i4"}


class Decoded(NamedTuple):
    header: dict[str, object]
    arrays: dict[str, npt.NDArray[np.integer]]


def decode(payload: bytes) -> Decoded:
    """Reads a payload by the layout its module documents, independently of the browser."""
    assert payload[:4] == MAGIC
    version, size = struct.unpack("<II", payload[4:12])
    assert version == VERSION
    assert size % 4 == 0
    header = json.loads(payload[12 : 12 + size])
    body = payload[12 + size :]
    arrays = {}
    for name, (kind, offset, count) in header["sections"].items():
        assert offset % 4 == 0
        arrays[name] = np.frombuffer(body, dtype=TYPES[kind], count=count, offset=offset)
    return Decoded(header, arrays)


def texts_of(decoded: Decoded) -> list[bytes]:
    lengths = decoded.arrays["token_length"].astype(np.int64)
    lengths[lengths == 255] = decoded.arrays["long_length"]
    ends = np.cumsum(lengths)
    text = decoded.arrays["text"].tobytes()
    return [text[end - size : end] for end, size in zip(ends, lengths, strict=True)]


blocks = st.lists(st.integers(0, 9), max_size=6)
unit_calls = st.lists(st.builds(UnitCall, blocks, blocks, st.integers(0, 1)), max_size=6)


@given(calls=unit_calls)
def test_payload_gives_back_segments_calls_and_runs(calls: list[UnitCall]) -> None:
    tree = unit_tree(calls)
    decoded = decode(pack(tree, word))
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
    runs = np.diff(arrays["run_start"], append=tree.size)
    np.testing.assert_array_equal(np.repeat(arrays["run_kind"], runs), node_kinds(tree))


@given(texts=st.lists(st.binary(max_size=600), min_size=1, max_size=8))
def test_payload_gives_back_each_tokens_bytes(texts: list[bytes]) -> None:
    tree = unit_tree([UnitCall(list(range(len(texts))), [])])
    assert texts_of(decode(pack(tree, texts.__getitem__))) == texts


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


def test_payload_stays_within_its_budget() -> None:
    tree = unit_tree(demo_calls())
    text = sum(len(word(int(token))) for token in tree.ids)
    assert len(pack(tree, word)) <= text + 2 * tree.size + 64 * len(tree.start)


def test_the_front_ends_fixture_is_what_pack_writes() -> None:
    texts = {1: b"one", 2: b"two", 3: b"three", 4: b"four", 5: b"five", 8: b"x" * 300}
    texts |= {6: "é".encode()[:1], 7: "é".encode()[1:]}
    tree = unit_tree(
        [UnitCall([1, 2], [3]), UnitCall([1, 4, 3], [5]), UnitCall([6, 7], [8], lineage=1)]
    )
    fixture = Path(__file__).parent / "frontend" / "kept_tail.payload"
    assert pack(tree, texts.__getitem__) == fixture.read_bytes()
