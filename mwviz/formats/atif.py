"""ATIF trajectories (1.0 to 1.8): main, sub-agents and continuations to one rollout.

Files that a trajectory refers to are looked for beside it, by plain name only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mwviz.errors import TraceError
from mwviz.formats.atif_steps import HANDED, MAIN, Trajectory, is_compaction, refers_to
from mwviz.formats.chat import Pool
from mwviz.formats.fields import (
    FieldError,
    Json,
    Object,
    child,
    count,
    label,
    objects,
    objects_in,
    shown,
)
from mwviz.formats.fields import string as text
from mwviz.formats.percall import Row, gather, strays
from mwviz.formats.records import Record, Records
from mwviz.rollout import Rollout

FILE = "trajectory.json"
"""How Harbor names the file; what stands in front of it, stands in front of its parts."""
STEP = (
    *("step_id", "timestamp", "source", "model_name", "reasoning_effort", "message"),
    *("reasoning_content", "tool_calls", "observation", "metrics", "is_copied_context"),
    *("llm_call_count", "extra"),
)
OBSERVATION = ("results", "extra")
RESULT = ("source_call_id", "content", "subagent_trajectory_ref", "extra")
"""Keys of the schema, which allows no others."""
SOURCES = ("system", "user", "agent")
MAX_FILES = 500
"""Files that one trajectory may refer to, directly or not."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a trajectory with a schema version."""
    return any(_is_trajectory(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a trajectory, with the sub-agents and continuations that are there."""

    def rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
        if not _is_trajectory(record.value) or not isinstance(record.value, dict):
            raise FieldError(f"{shown(record.value)}, expected a trajectory with steps")
        name = _name(record.value) or "trajectory"
        folder = _Folder(records.path)
        yield from _Reader(folder, name, record.line, pool).calls(record.value, MAIN)

    return gather(records, rows)


def _is_step(value: Object) -> bool:
    return value.get("source") in SOURCES


def _is_trajectory(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("steps"), list)
        and str(value.get("schema_version", "")).startswith("ATIF")
    )


def _name(document: Object) -> str | None:
    return label(document, "session_id") or label(document, "trajectory_id")


@dataclass(slots=True)
class _Folder:
    """The files beside the one that was given."""

    path: Path | None
    opened: int = 0

    def document(self, name: str) -> Object | None:
        """The trajectory in the file of this plain name; None if it is not there."""
        if self.path is None or not name or Path(name).name != name or self.opened >= MAX_FILES:
            return None
        prefix = self.path.name.removesuffix(FILE) if self.path.name.endswith(FILE) else ""
        for candidate in (self.path.parent / name, self.path.parent / (prefix + name)):
            if candidate.is_file() and not candidate.is_symlink():
                self.opened += 1
                return _first(candidate)
        return None


def _first(path: Path) -> Object | None:
    try:
        found = next(iter(Records(path)), None)
    except TraceError:
        return None
    value = found.value if found else None
    return value if isinstance(value, dict) and _is_trajectory(value) else None


@dataclass(slots=True)
class _Reader:
    """One rollout while its trajectories are walked."""

    folder: _Folder
    rollout: str
    line: int
    pool: Pool
    seen: set[str] = field(default_factory=set)
    missing: list[str] = field(default_factory=list)
    unknown: set[tuple[str, str]] = field(default_factory=set)

    def calls(self, document: Object, lineage: str) -> Iterator[Row | FieldError]:
        """Calls of the trajectory in the order of its steps, sub-agents where they are named."""
        trajectory = Trajectory(document, self.rollout, lineage, self.line, self.pool)
        trajectory.open()
        continued = lineage == MAIN and "continuation_index" in _extra(document)
        trajectory.compacted = continued
        yield from self._unknown(document)
        yield from strays(document, "steps", _is_step, "step of system, user or agent")
        for step in filter(_is_step, objects_in(document, "steps")):
            yield from self._step(step, trajectory)
        if following := text(document, "continued_trajectory_ref"):
            yield from self._continued(following, lineage)

    def _unknown(self, document: Object) -> Iterator[FieldError]:
        """Keys that the schema does not have, each said once: what they hold is not read."""
        for step in objects_in(document, "steps"):
            seen = child(step, "observation") or {}
            groups = (("a step", STEP, [step]), ("an observation", OBSERVATION, [seen]))
            results = ("a result", RESULT, objects_in(seen, "results"))
            for what, known, values in (*groups, results):
                for key in (key for value in values for key in value if key not in known):
                    if (what, key) not in self.unknown:
                        self.unknown.add((what, key))
                        yield FieldError(f"{what} has the unknown key {shown(key)}")

    def _step(self, step: Object, trajectory: Trajectory) -> Iterator[Row | FieldError]:
        parts = [(ref, self._part(ref, trajectory.document)) for ref in refers_to(step)]
        if is_compaction(step, trajectory):
            handed = (part for _, part in parts if part and _agent(part).endswith(HANDED))
            trajectory.compact([s for part in handed for s in objects(part, "steps") or ()])
        elif step.get("source") != "agent" or _is_context(step):
            trajectory.add(step)
        else:
            row = trajectory.call(step)
            gone, self.missing = self.missing, []
            yield row._replace(doubts=(*row.doubts, *map(_missing, gone)))
        for ref, part in parts:
            if part is None:
                self.missing.append(text(ref, "trajectory_path") or _name(ref) or "a sub-agent")
            else:
                yield from self.calls(part, _lineage(ref, part))

    def _part(self, ref: Object, document: Object) -> Object | None:
        """The sub-trajectory: in the same document, or in a file beside it."""
        wanted = label(ref, "trajectory_id")
        for inner in objects(document, "subagent_trajectories") or ():
            if wanted and label(inner, "trajectory_id") == wanted:
                return inner
        return self._file(text(ref, "trajectory_path") or "")

    def _file(self, name: str) -> Object | None:
        if name in self.seen:
            return None
        self.seen.add(name)
        return self.folder.document(name)

    def _continued(self, name: str, lineage: str) -> Iterator[Row | FieldError]:
        following = self._file(name)
        if following is None:
            yield FieldError(f"the trajectory goes on in {shown(name)}, which is not beside it")
        else:
            yield from self.calls(following, lineage)


def _missing(name: str) -> str:
    return f"the calls of {name} stand in a file that is not beside this one"


def _is_context(step: Object) -> bool:
    """Whether an agent's step was copied from elsewhere or made without a request."""
    return bool(step.get("is_copied_context")) or count(step, "llm_call_count") == 0


def _agent(document: Object) -> str:
    return text(child(document, "agent") or {}, "name") or ""


def _extra(document: Object) -> Object:
    return child(child(document, "agent") or {}, "extra") or {}


def _lineage(ref: Object, part: Object) -> str:
    return label(ref, "session_id") or _name(part) or _agent(part) or "sub-agent"
