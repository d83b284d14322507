"""A rollout as one binary that the browser decodes: tree, text, views and drift; no drawing.

Layout (little endian; `frontend/payload.js` reads it):

    4 bytes   magic `MWVZ`
    uint32    version
    uint32    length of the header in bytes, a multiple of 4
    8 bytes   id: digest of all that follows
    header    JSON: sizes, names, and for each section [type, offset, count];
              offsets count from the end of the header
    sections  arrays, each at a multiple of 4 bytes: small numbers as they are (types `u8`,
              `u16`), others as differences (types `u32`, `i32`; see `packing.py`)

Sections of every payload: `segment_*`, `call_*` (the tree), `born_*` (what of the birth axis was
given and what sampled), `rank_*` (each node's origin on that axis), `role_*` (messages),
`junction_*`, and the text: `token`, each node's place in the `vocabulary_*` of those that occur. Of
every view that is not exact: `NAME:run_*` and `NAME:row_*` (its rows) and `NAME:edge_*` (which
place of a row predicts which target), or in its header the name of the view whose rows it shares;
an exact view shows each target its true context, which is the tree. Of the first two views that are
scored: `NAME:drift`, a byte a target (`quantise.py`). The header names every other number that is
known (`numberpacking.py`): the page asks for one once it is to be shown.

Everything that follows from the stored arrays (depth, exit, paths, contexts, targets, copies, pair
classes) is derived in the browser. Letters: N nodes, S segments, C calls, M targets, R runs.
"""

from __future__ import annotations

import hashlib
import json
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mwviz.analysis import Analysis
from mwviz.births import kept_rows
from mwviz.compare import Comparison
from mwviz.junctions import Junction
from mwviz.numberpacking import hold, numbers_of, shipped
from mwviz.packing import Sections, packed
from mwviz.rollout import Span
from mwviz.tokens import Encoding
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.viewpacking import told_views, view_sections
from mwviz.views import View

MAGIC = b"MWVZ"
VERSION = 6
KINDS = ("given", "sampled", "given_copy", "sampled_copy")
"""What a node is: sent to the model or sampled by it, for the first time or again."""
ROLES = "SUATM"
"""Who speaks: system, user, assistant, tool, and the memory that a harness wrote (a summary)."""
CONTINUED = 128
"""Added to a role where a run goes on with a message that began in another segment."""
ID = 8
"""Bytes of the id of a payload."""
LONG = 255
"""Length byte of a text whose true length stands in the section `long_length`."""
_ROLE_OF = {"system": "S", "developer": "S", "user": "U", "assistant": "A", "tool": "T"}


def pack(analysis: Analysis, views: Sequence[str], comparisons: Mapping[str, Comparison]) -> bytes:
    """One constant binary for the front end; equal inputs give equal bytes.

    Args:
        analysis: the rollout to show.
        views: methods whose masks the page can draw; it opens with the first.
        comparisons: drift that is known, by the method it judges.
    """
    decoder = analysis.decoder
    contents = Contents(
        tree=analysis.tree,
        token_text=decoder.piece,
        encoding=analysis.encoding,
        junctions=analysis.junction_list,
        views=tuple(analysis.view(name) for name in views),
        comparisons=comparisons,
    )
    return pack_contents(contents)


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """What a payload is made from."""

    tree: EvictionTree
    token_text: Callable[[int], bytes]
    """UTF-8 bytes of a token id; a token may hold a part of a character."""
    encoding: Encoding | None = None
    """Knows which message each token belongs to."""
    junctions: tuple[Junction, ...] = ()
    views: tuple[View, ...] = ()
    comparisons: Mapping[str, Comparison] = field(default_factory=dict)


def pack_contents(contents: Contents) -> bytes:
    """The binary of some contents; see `pack`."""
    tree = contents.tree
    facts: dict[str, object] = {
        "nodes": tree.size,
        "lineages": tree.lineages,
        "kinds": KINDS,
        "roles": ROLES,
        "cache": kept_rows(tree) is not None,
    }
    sections = _tree_sections(tree)
    sections |= _role_sections(tree, contents.encoding)
    kinds = sorted({(junction.kind, junction.is_eviction) for junction in contents.junctions})
    facts["junction_kinds"] = kinds
    sections |= _junction_sections(contents.junctions, kinds)
    facts["views"] = told_views(contents.views)
    sections |= view_sections(contents.views)
    facts |= _number_facts(contents, sections)
    return _assemble(facts, sections | _text_sections(tree, contents.token_text))


def _number_facts(contents: Contents, sections: Sections) -> dict[str, object]:
    """Adds the numbers that the page gets at once; what the header says of all that are known."""
    numbers = numbers_of(contents.tree, contents.comparisons)
    told, codes = hold(numbers, shipped(contents.comparisons))
    sections |= codes
    judged = [
        {"view": name, "against": each.reference.method, "model": each.view.model}
        for name, each in contents.comparisons.items()
    ]
    return {"comparisons": judged, "numbers": told, "known": list(numbers)}


def node_kinds(tree: EvictionTree) -> npt.NDArray[np.int16]:
    """int16 (N,): index into `KINDS`; a copy is of the kind of the node it repeats."""
    sampled = np.zeros(tree.size, dtype=np.int16)
    sampled[tree.token] = 1
    kinds: npt.NDArray[np.int16] = sampled[tree.origin]
    kinds[tree.origin != np.arange(tree.size)] += 2
    return kinds


def birth_ranks(tree: EvictionTree) -> Longs:
    """int64 (N,): place of every node's origin on the birth axis."""
    birth = tree.birth
    rank = np.empty(tree.size, dtype=np.int64)
    rank[birth] = np.arange(len(birth))
    ranks: Longs = rank[tree.origin]
    return ranks


def _tree_sections(tree: EvictionTree) -> Sections:
    ranks = birth_ranks(tree)
    born = node_kinds(tree)[tree.birth]
    born_start = np.flatnonzero(np.diff(born, prepend=np.int16(-1)))
    rank_start = np.flatnonzero(np.diff(ranks, prepend=-2) != 1)
    return {
        "segment_start": tree.start.astype(np.uint32),
        "segment_parent": tree.parent.astype(np.int32),
        "segment_first_call": tree.first_call.astype(np.uint32),
        "call_prompt": tree.prompt_length.astype(np.uint32),
        "call_tip": tree.tip.astype(np.int32),
        "call_lineage": tree.lineage.astype(np.uint32),
        "call_cache": tree.cache.astype(np.uint32),
        "born_start": born_start.astype(np.uint32),
        "born_kind": born[born_start].astype(np.uint8),
        "rank_start": rank_start.astype(np.uint32),
        "rank_value": ranks[rank_start].astype(np.uint32),
    }


def _role_sections(tree: EvictionTree, encoding: Encoding | None) -> Sections:
    pieces = sorted(_role_runs(tree, encoding)) if encoding else []
    return {
        "role_start": np.array([piece.node for piece in pieces], dtype=np.uint32),
        "role": np.array([piece.role for piece in pieces], dtype=np.uint8),
    }


class _RoleRun(NamedTuple):
    node: int
    role: int
    """1 + index into `ROLES`, 0 if not known; plus `CONTINUED`."""


def _role_runs(tree: EvictionTree, encoding: Encoding) -> Iterator[_RoleRun]:
    """Every stretch of nodes of one message, from the call that first sent it."""
    length = tree.length
    for call, segments in enumerate(tree.call_paths()):
        spans = encoding.calls[call].spans
        ends = [span.end for span in spans]
        for segment in segments[tree.first_call[segments] == call].tolist():
            start, low = int(tree.start[segment]), int(tree.depth[segment])
            at, high = low, low + int(length[segment])
            for span in spans[bisect_right(ends, low) :]:
                if span.start >= high:
                    break
                if span.start > at:
                    yield _RoleRun(start + at - low, 0)
                first = max(span.start, low)
                continued = CONTINUED if span.start < low else 0
                yield _RoleRun(start + first - low, _role(span) + continued)
                at = max(at, span.end)
            if at < high:
                yield _RoleRun(start + at - low, 0)


def _role(span: Span) -> int:
    letter = "M" if span.kind == "summary" else _ROLE_OF.get(span.role)
    return ROLES.index(letter) + 1 if letter else 0


def _junction_sections(
    junctions: tuple[Junction, ...], kinds: Sequence[tuple[str, bool]]
) -> Sections:
    named = [kinds.index((junction.kind, junction.is_eviction)) for junction in junctions]
    depths = [-1 if junction.depth is None else junction.depth for junction in junctions]
    return {
        "junction_call": np.array([junction.call for junction in junctions], dtype=np.uint32),
        "junction_kind": np.array(named, dtype=np.uint8),
        "junction_depth": np.array(depths, dtype=np.int32),
        "junction_evicted": np.array([j.evicted_tokens for j in junctions], dtype=np.uint32),
    }


def _text_sections(tree: EvictionTree, token_text: Callable[[int], bytes]) -> Sections:
    """The tokens as places in a vocabulary of those that occur, and the text of each of these."""
    vocabulary, index = np.unique(tree.ids, return_inverse=True)
    pieces = [token_text(int(token)) for token in vocabulary]
    lengths = np.array([len(piece) for piece in pieces], dtype=np.int64)
    narrow = len(vocabulary) <= np.iinfo(np.uint16).max
    return {
        "token": index.astype(np.uint16) if narrow else index.astype(np.uint32),
        "vocabulary_id": vocabulary.astype(np.int32),
        "vocabulary_length": np.minimum(lengths, LONG).astype(np.uint8),
        "long_length": lengths[lengths >= LONG].astype(np.uint32),
        "vocabulary_text": np.frombuffer(b"".join(pieces), dtype=np.uint8),
    }


def id_of(payload: bytes) -> str:
    """What the page calls a payload when it asks for more numbers, in hexadecimal digits."""
    return payload[12 : 12 + ID].hex()


def _assemble(facts: dict[str, object], sections: Sections) -> bytes:
    table, body = packed(sections)
    header = json.dumps({**facts, "sections": table}, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 4)
    name = hashlib.blake2b(header + body, digest_size=ID).digest()
    return MAGIC + struct.pack("<II", VERSION, len(header)) + name + header + body
