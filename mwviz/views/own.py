"""Own views: a trainer's actual batch aligned to the tree, so that it can be judged like a method.

A token whose visible text is a whole context is aligned by walking the tree. Any other one is
aligned if it stands in a run of at least eight tokens of some context (in a log of units: if its id
is known). Rows are rows of owners: text that a batch repeats is the same tokens shown twice. If
several calls sampled a token in one context, their targets share its loss weight.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mwviz.batch import Sequence
from mwviz.runs import WINDOW, WindowIndex, choose, common_runs, window_hashes
from mwviz.tree import EvictionTree
from mwviz.trie import Longs, expand
from mwviz.views.view import Edges, MaskKind, Row, View

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class OwnView:
    """A batch as a view, with what could not be placed."""

    view: View
    digest: str
    """Hex digest of all that the model is fed: its name in the score cache."""
    tokens: int
    """Tokens of the batch, padding left out."""
    unaligned: int
    """Tokens that are in no context of the rollout."""
    trained_unaligned: int
    """Trained tokens among them: nothing can be said of them."""
    trained_unsampled: int
    """Trained tokens that no call sampled: prompts, tool results."""
    logprob: Doubles
    """float64 (M,): the trainer's log-probability of each target, nats; NaN where the batch has
    none. Of a target that it trains several times the mean, as of the two below."""
    sampled: Doubles
    """float64 (M,): log-probability when sampled, as the batch carries it."""
    advantage: Doubles
    """float64 (M,)."""


def own_view(tree: EvictionTree, batch: tuple[Sequence, ...], name: str) -> OwnView:
    """Aligns a batch to the tree.

    Args:
        tree: of the rollout the batch was made from.
        batch: its sequences.
        name: what to call the view.
    """
    aligner = _Aligner(tree)
    order = np.argsort(tree.origin[tree.token], kind="stable")
    owners = tree.origin[tree.token[order]]
    rows, told, unaligned, lost, unsampled = [], [], 0, 0, 0
    for sequence in batch:
        nodes = aligner.nodes(sequence)
        trained = np.flatnonzero(sequence.weight != 0)
        trained = trained[sequence.query[trained] >= 0]
        known = trained[nodes[trained] >= 0]
        first = np.searchsorted(owners, nodes[known])
        count = np.searchsorted(owners, nodes[known], side="right") - first
        edges = Edges(
            np.repeat(sequence.query[known], count),
            order[expand(first, count)],
            np.repeat(sequence.weight[known] / np.maximum(count, 1), count).astype(np.float32),
        )
        rows.append(_row(sequence, nodes, edges))
        told.append((edges.target, sequence, np.repeat(known, count)))
        unaligned += int((nodes < 0).sum())
        lost += len(trained) - len(known)
        unsampled += int((count == 0).sum())
    covered = np.zeros(len(tree.token), dtype=bool)
    for row in rows:
        covered[row.edges.target[row.edges.weight > 0]] = True
    missing = int((~covered).sum())
    reasons = (("not trained by the batch", missing),) if missing else ()
    view = View(name, tuple(rows), len(tree.token), reasons)
    logprob, sampled, advantage = (
        _mean_of(told, name, len(tree.token)) for name in ("logprobs", "sampled", "advantages")
    )
    return OwnView(
        view=view,
        digest=_digest(batch),
        tokens=sum(row.size for row in rows),
        unaligned=unaligned,
        trained_unaligned=lost,
        trained_unsampled=unsampled,
        logprob=logprob,
        sampled=sampled,
        advantage=advantage,
    )


def _mean_of(told: list[tuple[Longs, Sequence, Longs]], name: str, targets: int) -> Doubles:
    """float64 (M,): mean of one array over the trained showings of each target, NaN for none.

    Args:
        told: of every sequence, the targets that it trains, and where each stands in it.
        name: of the array.
        targets: M.
    """
    total, count = np.zeros(targets), np.zeros(targets)
    for target, sequence, place in told:
        values = sequence.at(name, place)
        known = ~np.isnan(values)
        np.add.at(total, target[known], values[known])
        np.add.at(count, target[known], 1)
    mean = np.full(targets, np.nan)
    mean[count > 0] = total[count > 0] / count[count > 0]
    return mean


def _digest(batch: tuple[Sequence, ...]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for sequence in batch:
        for array in (sequence.ids, sequence.positions, sequence.until, sequence.query):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(sequence.weight.tobytes())
    return digest.hexdigest()


def _row(sequence: Sequence, nodes: Longs, edges: Edges) -> Row:
    """The sequence in runs of consecutive nodes, positions and visibility."""
    follows = (nodes[1:] == nodes[:-1] + 1) & (nodes[:-1] >= 0) | (nodes[1:] < 0) & (nodes[:-1] < 0)
    follows &= np.diff(sequence.positions) == 1
    follows &= np.diff(sequence.until) == 0
    starts = np.append(0, np.flatnonzero(~follows) + 1)[: len(nodes)]
    return Row(
        first_node=np.where(nodes[starts] < 0, -1, nodes[starts]),
        length=np.diff(starts, append=len(nodes)),
        first_position=sequence.positions[starts],
        until=sequence.until[starts],
        mask=_mask(sequence.until[starts], starts, len(nodes)),
        edges=edges,
        ids=sequence.ids,
    )


def _mask(until: Longs, starts: Longs, size: int) -> MaskKind:
    """`blocks` if whatever a key saw is still seen by whoever sees the key, else `alive`."""
    if (until == size).all():
        return "causal"
    open_until: list[int] = []
    for start, end in zip(starts.tolist(), until.tolist(), strict=True):
        while open_until and open_until[-1] <= start:
            open_until.pop()
        if open_until and end > open_until[-1]:
            return "alive"
        open_until.append(end)
    return "blocks"


class _Aligner:
    """Finds the owner of every token of a text among the contexts of a tree."""

    def __init__(self, tree: EvictionTree) -> None:
        self.tree = tree
        self.parent = tree.parent_node
        self.units = _units(tree)
        self.children = _children(tree)
        self.windows = WindowIndex()
        if self.units is None:
            self._index()

    def _index(self) -> None:
        """Every window of the contexts once, at the node where its text first stood."""
        origin, length, seen = self.tree.origin, self.tree.length, np.zeros(self.tree.size, bool)
        for segments in self.tree.call_paths():
            path = expand(self.tree.start[segments], length[segments])
            fresh = np.flatnonzero(~seen[path])
            seen[path] = True
            if len(fresh) == 0 or len(path) < WINDOW:
                continue
            part = path[max(int(fresh[0]) - WINDOW + 1, 0) :]
            of = origin[part]
            straight = origin[self.parent[of]] == np.append(-1, of[:-1])
            breaks = np.cumsum(~straight | (of == part))
            new = breaks[WINDOW - 1 :] > np.append(0, breaks)[: len(breaks) - WINDOW + 1]
            hashes = window_hashes(self.tree.ids[part])
            self.windows.add(hashes[new], part[WINDOW - 1 :][new])

    def nodes(self, sequence: Sequence) -> Longs:
        """int64 (T,): owner of each token, -1 where it stands in no context."""
        ids = sequence.ids
        if self.units is not None:
            return np.array([self.units.get(int(token), -1) for token in ids], dtype=np.int64)
        walked = self._walk(sequence)
        found = np.where(walked < 0, -1, self.tree.origin[walked])
        hits = self.windows.find(window_hashes(ids))
        if len(hits.end) == 0 or (found >= 0).all():
            return found
        runs = common_runs(hits, self.tree.origin, self.parent)
        free = found < 0
        placed = True
        while placed:
            # Each pass shows an owner once; what a batch repeats is placed by a later pass.
            placed = False
            claimed = np.zeros(self.tree.size, dtype=bool)
            for run in choose(runs, free, claimed, lambda origin: origin):
                found[run.start : run.start + len(run.origins)] = run.origins
                placed = True
        return found

    def _walk(self, sequence: Sequence) -> Longs:
        """int64 (T,): node reached from the root by each token's visible text, -1 if none is."""
        reached = np.full(len(sequence.ids), -1, dtype=np.int64)
        ids, until = sequence.ids.tolist(), sequence.until.tolist()
        tree_ids, seen = self.tree.ids, [-1]
        for place, token in enumerate(ids):
            while len(seen) > 1 and until[seen[-1]] <= place:
                seen.pop()
            above = int(reached[seen[-1]]) if len(seen) > 1 else -1
            if len(seen) == 1 or above >= 0:
                branches = self.children.get(above)
                if branches is not None:
                    reached[place] = branches.get(token, -1)
                elif tree_ids[above + 1] == token:
                    reached[place] = above + 1
            seen.append(place)
        return reached


def _children(tree: EvictionTree) -> dict[int, dict[int, int]]:
    """First nodes of the segments below each segment's last node, by token id; -1 for roots."""
    last = tree.start + tree.length - 1
    below: dict[int, dict[int, int]] = {int(node): {} for node in last}
    for segment, parent in enumerate(tree.parent.tolist()):
        above = int(last[parent]) if parent >= 0 else -1
        first = int(tree.start[segment])
        below.setdefault(above, {})[int(tree.ids[first])] = first
    return below


def _units(tree: EvictionTree) -> dict[int, int] | None:
    """Owner by id, in a log in which no id stands for two different tokens."""
    own = np.flatnonzero(tree.origin == np.arange(tree.size))
    ids = tree.ids[own]
    if len(np.unique(ids)) < len(ids):
        return None
    return dict(zip(ids.tolist(), own.tolist(), strict=True))
