"""The eviction tree as one binary that the browser decodes; knows nothing of drawing.

Layout (little endian; `frontend/payload.js` reads it):

    4 bytes   magic `MWVZ`
    uint32    version
    uint32    length of the header in bytes, a multiple of 4
    header    JSON: sizes, names, and for each section [type, offset, count];
              offsets count from the end of the header
    sections  arrays, each at a multiple of 4 bytes

Everything that follows from the stored arrays (depth, exit, paths, cuts) is derived in the browser.
Letters: N nodes, S segments, C calls, R runs.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from mwviz.tree import EvictionTree
from mwviz.trie import Longs

MAGIC = b"MWVZ"
VERSION = 1
KINDS = ("given", "sampled", "given_copy", "sampled_copy")
"""What a run of nodes is: sent to the model or sampled by it, for the first time or again."""
LONG = 255
"""Length byte of a token whose true length stands in the section `long_length`."""

Array = npt.NDArray[np.uint8] | npt.NDArray[np.uint32] | npt.NDArray[np.int32]


def pack(tree: EvictionTree, token_text: Callable[[int], bytes]) -> bytes:
    """One constant binary for the front end; equal trees and texts give equal bytes.

    Args:
        tree: The tree to show.
        token_text: UTF-8 bytes of a token id; a token may hold a part of a character.
    """
    lengths, text = _texts(tree.ids, token_text)
    kinds = node_kinds(tree)
    run_start = np.flatnonzero(np.diff(kinds, prepend=np.int16(-1)))
    sections: dict[str, Array] = {
        "segment_start": tree.start.astype(np.uint32),
        "segment_parent": tree.parent.astype(np.int32),
        "segment_first_call": tree.first_call.astype(np.uint32),
        "call_prompt": tree.prompt_length.astype(np.uint32),
        "call_tip": tree.tip.astype(np.int32),
        "call_lineage": tree.lineage.astype(np.uint32),
        "run_start": run_start.astype(np.uint32),
        "run_kind": kinds[run_start].astype(np.uint8),
        "token_length": np.minimum(lengths, LONG).astype(np.uint8),
        "long_length": lengths[lengths >= LONG].astype(np.uint32),
        "text": np.frombuffer(text, dtype=np.uint8),
    }
    return _assemble({"nodes": tree.size, "lineages": tree.lineages, "kinds": KINDS}, sections)


def node_kinds(tree: EvictionTree) -> npt.NDArray[np.int16]:
    """int16 (N,): index into `KINDS`; a copy is of the kind of the node it repeats."""
    sampled = np.zeros(tree.size, dtype=np.int16)
    sampled[tree.token] = 1
    kinds: npt.NDArray[np.int16] = sampled[tree.origin]
    kinds[tree.origin != np.arange(tree.size)] += 2
    return kinds


def _texts(ids: npt.NDArray[np.int32], token_text: Callable[[int], bytes]) -> tuple[Longs, bytes]:
    vocabulary, index = np.unique(ids, return_inverse=True)
    pieces = [token_text(int(token)) for token in vocabulary]
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)[index]
    return lengths, b"".join([pieces[i] for i in index.tolist()])


def _assemble(facts: dict[str, object], sections: Mapping[str, Array]) -> bytes:
    names = {np.dtype(np.uint8): "u8", np.dtype(np.uint32): "u32", np.dtype(np.int32): "i32"}
    table: dict[str, tuple[str, int, int]] = {}
    body = bytearray()
    for name, array in sections.items():
        table[name] = (names[array.dtype], len(body), len(array))
        body += array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        body += bytes(-len(body) % 4)
    header = json.dumps({**facts, "sections": table}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 4)
    return MAGIC + struct.pack("<II", VERSION, len(header)) + header + bytes(body)
