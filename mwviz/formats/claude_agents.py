"""Sub-agents that Claude Code writes to files of their own, beside the session's file.

Only plain files under the two known names are opened, never a link; no name comes from a trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from mwviz.errors import TraceError
from mwviz.formats.records import Records
from mwviz.rollout import Call

FOLDER = "subagents"
PATTERN = "agent-*.jsonl"
PROBED = 5
"""Records of a neighbour file in which its session is looked for."""


def agent_files(path: Path | None, session: str | None) -> Iterator[Path]:
    """Sub-agent files of a session, by name: newer ones in its folder, older ones beside it."""
    if path is None or path.name.startswith("agent-"):
        return
    own = path.parent / path.name.split(".jsonl")[0]
    folder = own / FOLDER
    if not (own.is_symlink() or folder.is_symlink()):
        yield from _plain(folder)
    if session is not None:
        yield from (file for file in _plain(path.parent) if _belongs(file, session))


def merged_by_time(calls: list[Call], others: list[Call]) -> list[Call]:
    """Both lists in order of time; within each the order stays, and copies are left out."""
    known = {call.id for call in calls}
    timed = [*_timed(calls), *_timed([call for call in others if call.id not in known])]
    return [call for _, call in sorted(timed, key=lambda pair: pair[0])]


def _plain(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(f for f in folder.glob(PATTERN) if f.is_file() and not f.is_symlink())


def _belongs(file: Path, session: str) -> bool:
    try:
        first = list(islice(Records(file), PROBED))
    except TraceError:
        return False
    values = (record.value for record in first)
    return any(isinstance(value, dict) and value.get("sessionId") == session for value in values)


def _timed(calls: list[Call]) -> Iterator[tuple[float, Call]]:
    """Each call with the latest time seen so far, so that a wrong clock moves no call back."""
    latest = 0.0
    for call in calls:
        latest = max(latest, call.time or 0.0)
        yield latest, call
