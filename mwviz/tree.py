"""The eviction tree: every token of a rollout once per distinct context, in depth-first order.

Letters: N nodes (tokens), S segments, C calls, M targets. Definitions: docs/theory.md, section 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mwviz.caches import entry_trie, read_caches
from mwviz.encoding import CallTokens, Encoding
from mwviz.identity import is_unit_log, token_origins, unit_origins
from mwviz.lineages import assign_lineages
from mwviz.rollout import Rollout
from mwviz.semantics import KEEPING, Taken
from mwviz.targets import recorded_logprobs, targets_of
from mwviz.trie import Longs, Step, expand, grown, node_parents, segment_paths

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, slots=True, eq=False)
class EvictionTree:
    """The token trie of all calls' prompt + completion, with each sampled token as a target.

    The path to a call's tip is that call's context, token for token. Key `k` is visible to query
    `q` exactly if `k <= q < exit[segment_of(k)]`.
    """

    ids: npt.NDArray[np.int32]
    """int32 (N,): token ids in depth-first order, children in call order."""
    origin: Longs
    """int64 (N,): own index, or the node (the owner) whose token this one repeats."""
    start: Longs
    """int64 (S,): first node of each segment; a segment ends where the next one starts."""
    parent: Longs
    """int64 (S,): parent segment, -1 for a root."""
    depth: Longs
    """int64 (S,): position of the segment's first token in every context that holds it."""
    exit: Longs
    """int64 (S,): one past the last node below the segment."""
    first_call: Longs
    """int64 (S,): the call that first held the segment."""
    prompt_length: Longs
    """int64 (C,): tokens in each call's prompt."""
    tip: Longs
    """int64 (C,): last node of each call's context, -1 if the context is empty."""
    lineage: Longs
    """int64 (C,): index into `lineages`."""
    lineages: tuple[str, ...]
    """Names in order of first call; the main lineage is `main_lineage`."""
    query: Longs
    """int64 (M,): node whose hidden state predicts the target, -1 if nothing stands before it."""
    token: Longs
    """int64 (M,): node of the sampled token."""
    call: Longs
    """int64 (M,): call that sampled it; targets are ordered by (call, offset)."""
    offset: Longs
    """int64 (M,): its index in that call's completion."""
    logprob: npt.NDArray[np.float32]
    """float32 (M,): recorded log-probability in nats, NaN if not recorded."""
    cache: Longs
    """int64 (C,): which cache each call reads: its lineage's, a new one where it is filled anew in
    a rollout that also kept entries."""
    semantics: Taken = "re_prefill"
    """How the caches were treated at junctions, which decides what the true contexts are."""
    undecided: str = ""
    """Why what a cache held cannot be told; "" if it can."""

    @property
    def keeps_entries(self) -> bool:
        """Whether true states are those that a cache kept, not those of contexts encoded anew."""
        return self.semantics in KEEPING

    @property
    def size(self) -> int:
        """N: tokens of the tree."""
        return len(self.ids)

    @property
    def length(self) -> Longs:
        """int64 (S,): tokens in each segment."""
        return np.diff(self.start, append=len(self.ids))

    @property
    def position(self) -> Longs:
        """int64 (N,): depth of every node, which is its position id in every context."""
        return np.arange(self.size, dtype=np.int64) - np.repeat(
            self.start - self.depth, self.length
        )

    @property
    def parent_node(self) -> Longs:
        """int64 (N,): the node before each one, -1 at a root."""
        return node_parents(self.start, self.length, self.parent)

    def segment_of(self, node: npt.ArrayLike) -> Longs:
        """Segment of each node, by binary search."""
        return np.searchsorted(self.start, np.asarray(node), side="right") - 1

    def position_of(self, node: npt.ArrayLike) -> Longs:
        """Depth of each node: its position id, and how many tokens stand before it; -1 for -1."""
        nodes = np.asarray(node, dtype=np.int64)
        position = np.full(nodes.shape, -1, dtype=np.int64)
        real = nodes >= 0
        segments = self.segment_of(nodes[real])
        position[real] = nodes[real] - self.start[segments] + self.depth[segments]
        return position

    def nodes_of(self, segments: Longs) -> Longs:
        """int64: the nodes of segments, one after another."""
        return expand(self.start[segments], self.length[segments])

    def path(self, node: int) -> Longs:
        """int64: nodes from the root to a node, itself included; empty for -1."""
        segments = next(segment_paths(self.start, self.parent, np.array([node])))
        nodes = self.nodes_of(segments)
        return nodes[: int(self.position_of(node)) + 1] if node >= 0 else nodes

    def context(self, call: int) -> Longs:
        """int64 (P + O,): nodes of a call's prompt and completion."""
        return self.path(int(self.tip[call]))

    def call_paths(self) -> Iterator[Longs]:
        """int64: the segments of each call's context, in call order; the last one is whole."""
        return segment_paths(self.start, self.parent, self.tip)

    @property
    def previous(self) -> Longs:
        """int64 (C,): the call before each one in its lineage, -1 for a lineage's first."""
        before = np.full(len(self.tip), -1, dtype=np.int64)
        for lineage in range(len(self.lineages)):
            calls = np.flatnonzero(self.lineage == lineage)
            before[calls[1:]] = calls[:-1]
        return before

    @property
    def kept(self) -> Longs:
        """int64 (C,): tokens of the previous context that each prompt starts with.

        Less than that context's length marks a junction; 0 for a lineage's first call.
        """
        previous = self.previous
        before = np.where(previous >= 0, self.tip[previous], -1)
        common = np.where(before >= 0, self.segment_of(before), -1)
        calls = np.flatnonzero(common >= 0)
        while len(calls):
            segment, tip = common[calls], self.tip[calls]
            apart = (tip < self.start[segment]) | (tip >= self.exit[segment])
            calls = calls[apart]
            common[calls] = self.parent[segment[apart]]
            calls = calls[common[calls] >= 0]
        ends = np.append(self.depth + self.length, 0)
        kept: Longs = np.minimum(ends[common], self.prompt_length)
        return kept

    @property
    def context_length(self) -> Longs:
        """int64 (C,): tokens of each call's prompt and completion together."""
        return self.position_of(self.tip) + 1

    @property
    def junction_calls(self) -> Longs:
        """int64: calls whose prompt does not start with the previous context of their lineage."""
        previous = self.previous
        broken = (previous >= 0) & (self.kept < self.context_length[previous])
        return np.flatnonzero(broken)

    @property
    def leaves(self) -> Longs:
        """int64: segments that nothing continues, in depth-first order."""
        return np.setdiff1d(np.arange(len(self.start)), self.parent)

    @property
    def birth(self) -> Longs:
        """int64 (U,): every distinct token's first node, in order of appearance.

        Prompt tokens are born by slot, then the completion, call by call.
        """
        # A call's new segments lie on one path: sorted by depth they stand as they appeared.
        taken = np.lexsort((self.depth, self.first_call))
        nodes = expand(self.start[taken], self.length[taken])
        born: Longs = nodes[self.origin[nodes] == nodes]
        return born

    @property
    def main_lineage(self) -> int:
        """Index of the lineage named `main`, else of the first call's."""
        return self.lineages.index("main") if "main" in self.lineages else 0

    @property
    def budget(self) -> dict[str, int]:
        """Token counts: `union <= tree <= branches <= calls`, and `sampled`."""
        end = self.depth + self.length
        return {
            "union": int(np.count_nonzero(self.origin == np.arange(self.size))),
            "tree": self.size,
            "branches": int(end[self.leaves].sum()),
            "calls": int(self.context_length.sum()),
            "sampled": len(self.token),
        }

    def to_networkx(self) -> networkx.DiGraph:
        """Segments as a directed graph from roots to leaves.

        Nodes are segment indices with `start`, `length`, `depth` and `first_call` (tokens, calls).
        """
        import networkx

        graph = networkx.DiGraph()
        for segment, parent in enumerate(self.parent.tolist()):
            graph.add_node(
                segment,
                start=int(self.start[segment]),
                length=int(self.length[segment]),
                depth=int(self.depth[segment]),
                first_call=int(self.first_call[segment]),
            )
            if parent >= 0:
                graph.add_edge(parent, segment)
        return graph


def build_tree(encoding: Encoding, rollout: Rollout) -> EvictionTree:
    """The eviction tree of a rollout; linear in its tokens, quadratic at most in its segments."""
    trie = grown(_steps(encoding))
    unit_log = is_unit_log(encoding)
    lineages = assign_lineages(trie, encoding, rollout, unit_log=unit_log)
    caches = read_caches(encoding, rollout, lineages.of_call, unit_log=unit_log)
    if caches.kept and not unit_log:
        trie = entry_trie(encoding, lineages.of_call, caches.kept)
    prompt_length = np.array([call.prompt_length for call in encoding.calls], dtype=np.int64)
    targets = targets_of(trie, prompt_length)
    return EvictionTree(
        ids=trie.ids,
        origin=unit_origins(trie)
        if unit_log
        else token_origins(trie, encoding, lineages.of_call, kept=caches.kept),
        start=trie.start,
        parent=trie.parent,
        depth=trie.depth,
        exit=trie.exit,
        first_call=trie.first_call,
        prompt_length=prompt_length,
        tip=trie.tip,
        lineage=lineages.of_call,
        lineages=lineages.names,
        query=targets.query,
        token=targets.token,
        call=targets.call,
        offset=targets.offset,
        logprob=recorded_logprobs(encoding, rollout),
        cache=caches.of_call,
        semantics=caches.taken,
        undecided=caches.undecided,
    )


def _steps(encoding: Encoding) -> Iterator[Step]:
    """Every context by what it adds to the one before it."""
    before: CallTokens | None = None
    for call in encoding.calls:
        shared = call.shared_with(before) if before else 0
        yield Step(shared, call.behind(shared))
        before = call
