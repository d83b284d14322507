"""What there is to know of one trace format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mwviz.formats.records import Record, Records
from mwviz.rollout import Rollout


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of trace file."""

    name: str
    title: str
    detects: Callable[[Sequence[Record]], bool]
    """Whether the first records are of this format."""
    reads: Callable[[Records], list[Rollout]]
    fidelity: str
    """How true the contexts are that come out of it."""
    unknowable: str
    """What such a file can never tell."""
    folder: bool = False
    """Whether a folder of files is one trace; of other formats one file has to be named."""
