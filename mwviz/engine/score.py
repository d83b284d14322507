"""Scores every target of a view with a model: rows in, one `Scores` out. Letters: M targets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from mwviz.engine import check, partition, vocabulary
from mwviz.engine.layout import Layout, joined, layout
from mwviz.engine.model import Model
from mwviz.engine.scores import Floor, Scores
from mwviz.engine.steps import Step, remaining
from mwviz.engine.tempered import logprobs_at
from mwviz.errors import ModelError
from mwviz.tree import EvictionTree
from mwviz.trie import Longs
from mwviz.views.view import Row, View
from mwviz.wording import counted

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.float32] | npt.NDArray[np.int32]
Places = slice | torch.Tensor
"""Rows of a table."""


def score(
    tree: EvictionTree,
    view: View,
    model: Model,
    *,
    kernel: str = "auto",
    floor: Floor | None = None,
    temperature: npt.NDArray[np.float32] | None = None,
) -> Iterator[Step[Scores]]:
    """Steps of scoring a view, counted in tokens; the last one carries the scores.

    A step is a row, or several causal ones of like length on a device that runs them together.

    A target that a view trains several times gets the weighted mean of its log-probabilities, and
    entropy, rank and hidden state of the first.

    Args:
        tree: The tree the view indexes.
        view: What to score.
        model: Proves itself on a small tree first, once for each kernel.
        kernel: One of `kernels.KERNELS`.
        floor: From `floors.measure_floor`; None takes that of the self-check.
        temperature: float32 (M,): at which each target was sampled, NaN where not known; None
            where all that are known are 1.

    Raises:
        ModelError: The model cannot score this view; says why and which method works instead.
    """
    largest = int(tree.ids.max(initial=0))
    if largest >= model.vocabulary or int(tree.ids.min(initial=0)) < 0:
        raise ModelError(
            f"{model.name}: token id {largest} is outside its vocabulary of {model.vocabulary}; "
            "the rollout was recorded with another tokenizer"
        )
    chosen, proved = check.proved(model, view.rows, kernel=kernel)
    grouped = check.grouped(model, view.rows, kernel=chosen, train=False)
    table = _Table(tree, view, model, temperature)
    table.notes.update(dict.fromkeys(grouped.notes))
    return _steps(tree, table, grouped.groups, kernel=chosen, floor=floor or proved)


def _steps(
    tree: EvictionTree,
    table: _Table,
    groups: Sequence[tuple[Row, ...]],
    *,
    kernel: str,
    floor: Floor,
) -> Iterator[Step[Scores]]:
    began = time.perf_counter()
    model, out = table.model, table.out
    total = sum(row.size for group in groups for row in group)
    done = 0
    sent: _Sent | None = None
    for group in groups:
        parts = [layout(tree, row, limit=model.max_positions) for row in group]
        given = _send(tree, joined(parts), model, kernel=kernel, out=out)
        table.notes.update(dict.fromkeys(note for part in given for note in part.notes))
        # While the device is at work, the table is made and what went before taken in.
        table.reserve()
        for part in parts:
            table.cut[part.cut] = True
        if sent is not None:
            done += table.take(sent)
            yield Step(done, total, remaining(time.perf_counter() - began, done, total))
        sent = _Sent(given, sum(row.size for row in group))
    table.reserve()
    if sent is not None:
        table.take(sent)
    seconds = time.perf_counter() - began
    yield Step(total, total, 0.0, table.scores(kernel=kernel, floor=floor, seconds=seconds))


def _send(
    tree: EvictionTree, part: Layout | None, model: Model, *, kernel: str, out: vocabulary.Head
) -> _Parts:
    """Gives the device a row or a batch, or several with fewer branches where it does not fit."""
    if part is None:
        return []

    def start(one: Layout) -> vocabulary.Pending:
        return vocabulary.start_row(tree, one, model, kernel=kernel, out=out)

    parts = partition.fitting_parts(model, part, train=False)
    return list(partition.fitting(parts, model, start))


_Parts = list[partition.Fitted[vocabulary.Pending]]


class _Sent(NamedTuple):
    """A row that the device has been given, or the lines of a batch."""

    parts: _Parts
    """Empty if it has no targets and was not run."""
    tokens: int


class _Table:
    """Collects what the rows say about each target."""

    def __init__(
        self,
        tree: EvictionTree,
        view: View,
        model: Model,
        temperature: npt.NDArray[np.float32] | None,
    ) -> None:
        self.view, self.model, self.temperature = view, model, temperature
        self.out = vocabulary.head(model)
        self.ids = tree.ids[tree.token]
        targets = len(tree.token)
        self.tempered = np.zeros(targets)
        self.logprob = np.zeros(targets)
        self.weight = np.zeros(targets)
        self.entropy = np.full(targets, np.nan, dtype=np.float32)
        self.rank = np.full(targets, -1, dtype=np.int32)
        self.hidden = np.empty((0, 0), dtype=np.float32)
        self.cut = np.zeros(targets, dtype=bool)
        self.notes: dict[str, None] = {}
        """How rows had to be run, each once, in order."""

    def reserve(self) -> None:
        """Makes room for the hidden states, once: most of the table's bytes."""
        if not self.hidden.size:
            shape = len(self.ids), self.out.weight.shape[1]
            # torch fills and copies on all cores.
            self.hidden = torch.full(shape, torch.nan, dtype=torch.float32).numpy()

    def take(self, sent: _Sent) -> int:
        """Takes in a row once the device has run it; its tokens."""
        for part, pending, _notes in sent.parts:
            # All that needs no reading comes first: the device is still at work.
            target = part.edges.target
            new = np.flatnonzero(self.weight[target] == 0)
            # Of a target that the row trains twice, the first reading.
            place, first = np.unique(target[new], return_index=True)
            rows, taken = _run(place), _run(new[first])
            once = len(place) == len(target)
            _add(self.weight, part.edges.weight, target, once=once)
            # Most of the bytes, while the device still reads the vocabulary.
            _put(self.hidden, rows, pending.hidden(), taken)
            reading = pending.reading()
            _put(self.entropy, rows, reading.entropy, taken)
            _put(self.rank, rows, reading.rank, taken)
            weighted = part.edges.weight * reading.logprob.double().numpy()
            _add(self.logprob, weighted, target, once=once)
            if self.temperature is not None:
                warm, ids = self.temperature[target], self.ids[target]
                said = logprobs_at(self.out, reading.hidden, token=ids, temperature=warm)
                weighted = part.edges.weight * said.astype(np.float64)
                _add(self.tempered, weighted, target, once=once)
        return sent.tokens

    def scores(self, *, kernel: str, floor: Floor, seconds: float) -> Scores:
        """The finished table; NaN where nothing was read."""
        covered = self.weight > 0
        mean = _mean(self.logprob, self.weight)
        tempered = None if self.temperature is None else _mean(self.tempered, self.weight)
        lost = int((self.cut & ~covered).sum())
        note = (
            f"{counted(lost, 'target')} not scored: the context exceeds the "
            f"{self.model.max_positions} tokens of {self.model.name}"
        )
        return Scores(
            method=self.view.method,
            model=self.model.label,
            kernel=kernel,
            dtype=self.model.precision,
            device=self.model.device.type,
            logprob=mean,
            entropy=self.entropy,
            rank=self.rank,
            hidden=self.hidden,
            floor=floor,
            seconds=seconds,
            tempered=tempered,
            notes=(*([note] if lost else []), *self.notes),
        )


def _mean(total: Doubles, weight: Doubles) -> Floats:
    """float32 (M,): total over weight, NaN where nothing was read."""
    mean = np.full(len(weight), np.nan, dtype=np.float32)
    covered = weight > 0
    mean[covered] = total[covered] / weight[covered]
    return mean


def _add(total: Doubles, values: Doubles | Floats, target: Longs, *, once: bool) -> None:
    """Adds a row's numbers (E,) to those of all targets, each of which it holds once or more."""
    if once:
        total[target] += values
    else:
        np.add.at(total, target, values)


def _put(column: Numbers, rows: Places, read: torch.Tensor, taken: Places) -> None:
    """Writes some of what was read to some rows of the table."""
    whole = torch.from_numpy(column)
    if isinstance(rows, slice) and isinstance(taken, slice):
        whole[rows] = read[taken]
    else:
        whole[rows] = read[taken].to(whole.dtype)


def _run(places: Longs) -> Places:
    """Places as a slice where they follow one another: copied at once, not one by one."""
    first = int(places[0]) if len(places) else 0
    if np.array_equal(places, np.arange(first, first + len(places))):
        return slice(first, first + len(places))
    return torch.from_numpy(places)
