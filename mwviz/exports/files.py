"""The exports as files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mwviz.errors import TraceError
from mwviz.exports.atif import trajectories
from mwviz.exports.calls import call_records
from mwviz.exports.graph import trace_record
from mwviz.formats.mwviz1_writer import LONE_SURROGATES
from mwviz.rollout import Rollout


def write_calls(rollouts: Sequence[Rollout], path: Path) -> None:
    """Writes the generic per-call log.

    Raises:
        TraceError: The file cannot be written.
    """
    write_lines(call_records(rollouts), path)


def write_graphs(rollouts: Sequence[Rollout], path: Path) -> None:
    """Writes verifiers-like traces, one a rollout.

    Raises:
        TraceError: A rollout cannot be a graph, or the file cannot be written.
    """
    write_lines([trace_record(rollout) for rollout in rollouts], path)


def write_trajectory(
    rollouts: Sequence[Rollout], path: Path, *, source: Path | None = None
) -> list[Path]:
    """Writes one rollout as ATIF: the file, and its continuations beside it; their paths.

    Args:
        rollouts: one of them.
        path: of the first file.
        source: the file that the rollout was read from, which stays.

    Raises:
        TraceError: There are several rollouts, this one cannot be steps, the name does not end
            in `.trajectory.json`, by which readers find the parts, or a part would take the place
            of the source.
    """
    ending = ".trajectory.json"
    if not path.name.endswith(ending):
        raise TraceError(f"{path}: expected a name ending in {ending}")
    if len(rollouts) != 1:
        raise TraceError(f"{path}: {len(rollouts)} rollouts, expected one a trajectory")
    documents = trajectories(rollouts[0], path.name.removesuffix(ending))
    paths = [path.with_name(name) for name in documents]
    taken = [at for at in paths if source and at.exists() and at.samefile(source)]
    if taken:
        raise TraceError(f"{taken[0]}: is what is converted, and would be lost; choose a new name")
    for target, document in zip(paths, documents.values(), strict=True):
        _write(json.dumps(document, ensure_ascii=False, indent=1) + "\n", target)
    return paths


def write_lines(records: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Writes JSON Lines.

    Raises:
        TraceError: The file cannot be written.
    """
    _write("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), path)


def _write(text: str, path: Path) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors=LONE_SURROGATES)
    except OSError as error:
        raise TraceError(f"{path}: cannot be written: {error.strerror}") from error
