"""Claude Code session files (JSON Lines event logs) to rollouts, rebuilt by replay.

System prompt and tool list are never in the file; what else is missing becomes a hole of the calls
it concerns. Sub-agents and parts of a session that hang on nothing are lineages of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mwviz.errors import TraceError
from mwviz.formats.claude_agents import agent_files, merged_by_time
from mwviz.formats.claude_chains import Chain
from mwviz.formats.claude_context import Session
from mwviz.formats.claude_holes import with_holes
from mwviz.formats.claude_lineages import Lineages
from mwviz.formats.claude_rows import SYNTHETIC, Row, attachment_type, read_row
from mwviz.formats.fields import FieldError, Object, shown
from mwviz.formats.records import Record, Records
from mwviz.formats.replay import Unknown, listed
from mwviz.rollout import Call, Hint, Message, Rollout, Usage
from mwviz.sharing import Sharing

SESSION = "session"
"""Id of the rollout if no record names its session."""
OUTSIDE = (
    "summary",
    "file-history-snapshot",
    "file-history-delta",
    "progress",
    "queue-operation",
    "pr-link",
    "mode",
    "permission-mode",
    "ai-title",
    "custom-title",
    "agent-name",
    "last-prompt",
    "bridge-session",
    "system",
    "attachment",
    "user",
    "assistant",
)
"""Record types whose meaning is known; others are named in a warning."""
SYSTEM = (
    "compact_boundary",
    "microcompact_boundary",
    "stop_hook_summary",
    "turn_duration",
    "local_command",
    "api_error",
    "away_summary",
    "informational",
    None,
)
"""System records whose meaning is known; older ones have no subtype."""


@dataclass
class _Notes:
    """What is worth a warning, collected while reading."""

    replayed: list[int] = field(default_factory=list)
    conflicting: list[int] = field(default_factory=list)
    unknown: Unknown = field(default_factory=Unknown)
    texts: list[str] = field(default_factory=list)
    session: str | None = None


def detects(head: Sequence[Record]) -> bool:
    """Whether a record has the type, the message and the chain of a session's record."""
    return any(isinstance(record.value, dict) and _is_row(record.value) for record in head)


def _is_row(value: Object) -> bool:
    if not any(key in value for key in ("uuid", "parentUuid", "sessionId")):
        return False
    if value.get("type") in ("user", "assistant"):
        message = value.get("message")
        return isinstance(message, dict) and "parts" not in message
    return value.get("type") == "system" and value.get("subtype") == "compact_boundary"


def reads(records: Records, *, link: bool = False) -> list[Rollout]:
    """One rollout: the session with its sub-agents, those in files of their own too.

    Args:
        records: of the session's file.
        link: whether records whose parent is not in the file go on from the record before them;
            the contexts that rest on such a guess say so.
    """
    notes = _Notes()
    session = Session(_rows(records, notes), link=link)
    calls = _calls(session, notes)
    notes.texts[:0] = [
        *listed("replayed copies dropped", notes.replayed, one="replayed copy dropped"),
        *listed(
            "records repeat a uuid with other content; the first is kept",
            notes.conflicting,
            one="record repeats a uuid with other content; the first is kept",
        ),
        *listed(
            "records whose parent is not in the file are linked to the one before, a guess",
            [session.rows[uuid].line for uuid in session.chains.guesses],
            one="record whose parent is not in the file is linked to the one before, a guess",
        ),
        *notes.unknown.warnings,
    ]
    for file in agent_files(records.path, notes.session):
        calls = merged_by_time(calls, _agent_calls(file, records, notes))
    return [Rollout(notes.session or SESSION, tuple(calls), warnings=tuple(notes.texts))]


def _agent_calls(file: Path, records: Records, notes: _Notes) -> list[Call]:
    """Calls of a sub-agent's file; all its rows are that agent's."""
    part = Records(file)
    own = _Notes()
    try:
        rows = _rows(part, own)
    except TraceError as error:
        notes.texts.append(f"sub-agent file not read: {error}")
        return []
    agent = next((row.agent for row in rows if row.agent), file.stem)
    session = Session(replace(row, side=True, agent=agent) for row in rows)
    calls = _calls(session, own)
    notes.texts += [f"{file.name}: {text}" for text in own.texts]
    records.damage += [replace(d, what=f"{file.name}: {d.what}") for d in part.damage]
    return calls


def _rows(records: Records, notes: _Notes) -> list[Row]:
    rows: dict[str, Row] = {}
    above: str | None = None
    for record in records:
        try:
            if not isinstance(record.value, dict):
                raise FieldError(f"{shown(record.value)}, expected a session record")
            row = read_row(record.value, record.line, before=above)
        except FieldError as error:
            records.drop(record, str(error))
            continue
        _note(record.value, notes, record.line)
        if row is None:
            continue
        first = rows.setdefault(row.uuid, row)
        if first is not row:
            same = first.content_key == row.content_key
            (notes.replayed if same else notes.conflicting).append(record.line)
        above = row.uuid
    return list(rows.values())


def _note(record: Object, notes: _Notes, line: int) -> None:
    session, kind = record.get("sessionId"), record.get("type")
    if notes.session is None and isinstance(session, str):
        notes.session = session
    attachment = attachment_type(record)
    if attachment and not attachment.startswith("hook_"):
        notes.unknown.meet(attachment, line, "attachment")
    elif not isinstance(kind, str) or kind not in OUTSIDE:
        notes.unknown.meet(kind if isinstance(kind, str) else None, line)
    elif kind == "system" and record.get("subtype") not in SYSTEM:
        notes.unknown.meet(str(record.get("subtype")), line, "system record")


def _calls(session: Session, notes: _Notes) -> list[Call]:
    lineages = Lineages(session)
    shared: Sharing[Message] = Sharing()
    groups = sorted(session.groups.values(), key=lambda group: group[0].line)
    calls: list[Call] = []
    chains: list[Chain] = []
    for group in groups:
        chain = session.chains.of(group[0])
        entries = session.context(group[0])
        session.used.update(row.uuid for row in group)
        lineage = lineages.name(group[0])
        hints = lineages.hints(lineage, chain)
        prompt = shared(lineage, [entry.message for entry in entries])
        calls.append(_call(session, group, prompt, lineage=lineage, hints=hints))
        chains.append(chain)
    unused = [
        row.line for row in session.rows.values() if row.message and row.uuid not in session.used
    ]
    several, one = (f"{words} in no call's context" for words in ("messages are", "message is"))
    notes.texts += [*lineages.warnings, *listed(several, unused, one=one)]
    return with_holes(calls, chains)


def _call(
    session: Session,
    group: list[Row],
    prompt: Sequence[Message],
    *,
    lineage: str,
    hints: tuple[Hint, ...],
) -> Call:
    replies = [row.reply for row in group if row.reply]
    synthetic = any(reply.model == SYNTHETIC for reply in replies)
    finishes = [reply.finish for reply in replies if reply.finish]
    return Call(
        replies[0].group,
        prompt=prompt,
        completion=() if synthetic else (session.merged(group),),
        lineage=lineage,
        usage=_most([reply.usage for reply in replies if reply.usage]),
        model=replies[0].model,
        finish="not sampled" if synthetic else finishes[-1] if finishes else None,
        time=replies[0].time,
        content="rebuilt",
        tokens="rendered",
        hints=hints,
        line=group[0].line,
    )


def _most(usages: list[Usage]) -> Usage | None:
    """The largest counts of a call's records: each is a snapshot taken while it streamed."""
    if not usages:
        return None
    return Usage(
        max((u.prompt for u in usages if u.prompt is not None), default=None),
        max((u.completion for u in usages if u.completion is not None), default=None),
        max((u.cached for u in usages if u.cached is not None), default=None),
    )
