"""A trace file: its rollouts, what was damaged in it, and an analysis of each rollout."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from mwviz.analysis import Analysis
from mwviz.formats import Reading, read
from mwviz.readers import Reader
from mwviz.rollout import Damage, Rollout
from mwviz.semantics import with_words


class Trace:
    """One trace file: its rollouts, what was damaged, and an analysis of each rollout."""

    def __init__(self, path: str, reading: Reading) -> None:
        self.path = path
        self.format: str = reading.format
        self.rollouts: tuple[Rollout, ...] = reading.rollouts
        self.damage: tuple[Damage, ...] = reading.damage
        self.warnings: tuple[str, ...] = reading.warnings

    @cached_property
    def analyses(self) -> tuple[Analysis, ...]:
        """One analysis a rollout, in file order; each computes only what is asked of it."""
        return tuple(Analysis(rollout) for rollout in self.rollouts)

    def read_by(self, reader: Reader | None) -> tuple[Analysis, ...]:
        """The analyses in the tokens that a model reads; in the trace's own for None.

        Raises:
            ModelError: it cannot read one: see `Analysis.for_model`.
        """
        if reader is None:
            return self.analyses
        return tuple(analysis.for_model(reader) for analysis in self.analyses)

    def with_semantics(self, told: Sequence[str]) -> Trace:
        """The trace as if its log said how caches were treated: see `semantics.with_words`.

        Raises:
            TraceError: a word is not known, or a rollout has no such call.
        """
        rollouts = tuple(with_words(rollout, told) for rollout in self.rollouts)
        return Trace(self.path, Reading(self.format, rollouts, self.damage, self.warnings))

    def _repr_html_(self) -> str:
        rows = "".join(analysis.describe() for analysis in self.analyses)
        title = html.escape(f"{self.path} ({self.format})")
        return f"<p>{title}</p><table>{rows}</table>"


def load(
    source: str | Path | bytes,
    *,
    format: str | None = None,
    mapping: Mapping[str, str] | None = None,
) -> Trace:
    """The rollouts of a trace file; `-` reads standard input.

    Args:
        source: path of the file, or its content.
        format: name of its format; None finds it from the content.
        mapping: where each field of a call stands, in a per-call log with names of its own.

    Raises:
        TraceError: nothing in it can be used; says where, what and what was expected.
    """
    name = "memory" if isinstance(source, bytes) else str(source)
    return Trace(name, read(source, format=format, mapping=mapping))
