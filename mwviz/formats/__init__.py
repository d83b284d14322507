"""Trace files to rollouts: the format is found from the content, never from the file's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mwviz.errors import TraceError
from mwviz.formats import calls, claude_code, messages, mwviz1, qwen_agent
from mwviz.formats.call_formats import CALL_FORMATS
from mwviz.formats.fields import shown
from mwviz.formats.format import Format
from mwviz.formats.log_formats import LOG_FORMATS
from mwviz.formats.mapped import reads_mapped
from mwviz.formats.mwviz1_writer import write
from mwviz.formats.opening import called, readable
from mwviz.formats.partners import unanswered, unpaired
from mwviz.formats.qwen_truncation import Truncation
from mwviz.formats.records import Record, Records
from mwviz.formats.sources import opened
from mwviz.formats.step_formats import STEP_FORMATS
from mwviz.formats.trainer_formats import TRAINER_FORMATS
from mwviz.rollout import Damage, Rollout, Source
from mwviz.wording import counted

__all__ = ["FORMATS", "Format", "Reading", "read", "recognised", "write"]


FORMATS: tuple[Format, ...] = (
    Format(
        "mwviz/1",
        "mwviz's own call log",
        mwviz1.detects,
        mwviz1.reads,
        "As true as its writer said, call by call; token ids are checked against their digest.",
        "Whatever its writer left out; it names the holes it knows.",
    ),
    Format(
        "claude-code",
        "Claude Code session",
        claude_code.detects,
        claude_code.reads,
        "Contexts are rebuilt from an event log; exact token counts of each call are a witness.",
        "System prompt, tool list, token ids, logprobs; text re-attached after a compaction; "
        "thinking text in newer versions; evictions that left no record.",
    ),
    *LOG_FORMATS,
    *STEP_FORMATS,
    *CALL_FORMATS,
    *TRAINER_FORMATS,
    Format(
        "calls",
        "Generic per-call log",
        calls.detects,
        calls.reads,
        "Exact: each call holds the prompt it was sent.",
        "What the harness did between two calls: it is derived from the prompts.",
    ),
    Format(
        "messages",
        "Flat chat",
        messages.detects,
        messages.reads,
        "Exact only if the harness never changed its context.",
        "Every eviction: each call is taken to have seen all messages before it.",
    ),
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from one trace file."""

    format: str
    rollouts: tuple[Rollout, ...]
    damage: tuple[Damage, ...]
    warnings: tuple[str, ...]
    """Warnings of all rollouts, in order, each once."""


def read(
    source: str | Path | bytes,
    *,
    format: str | None = None,
    mapping: Mapping[str, str] | None = None,
    truncation: Truncation | None = None,
    link: bool = False,
) -> Reading:
    """Rollouts of a trace file, of standard input (`-`) or of the bytes of one.

    Args:
        source: path of the file, or its content.
        format: name of its format; None finds it from the content.
        mapping: where each field of a call stands, in a per-call log with names of its own.
        truncation: limit under which a Qwen-Agent list was cut, to be worked out again.
        link: whether Claude Code records whose parent is missing go on from the one before them.

    Raises:
        TraceError: It cannot be opened, is of no known format, or holds no call.
    """
    with readable(called(source)):
        records = opened(source)
        head = records.head()
        if mapping:
            chosen = replace(_named("calls"), reads=partial(reads_mapped, mapping=mapping))
        elif truncation:
            cut = partial(qwen_agent.reads, truncation=truncation)
            chosen = replace(_named("qwen-agent"), reads=cut)
        else:
            chosen = _named(format) if format else _detected(head, records)
        if link:
            chosen = _linked(chosen, records)
        if records.holds and not chosen.folder:
            raise TraceError(_no_folder(records, chosen))
        rollouts = [rollout for rollout in chosen.reads(records) if rollout.calls]
        damage = tuple(records.damage)
        if not rollouts:
            raise TraceError(_no_calls(records, chosen))
    origin = Source(chosen.name, records.name)
    judged = tuple(
        replace(rollout, source=origin, damage=damage, warnings=_warnings(rollout))
        for rollout in rollouts
    )
    texts = dict.fromkeys(text for rollout in judged for text in rollout.warnings)
    return Reading(chosen.name, judged, damage, tuple(texts))


def recognised(source: str | Path | bytes) -> bool:
    """Whether the first records of a trace are of a known format; its calls are not read."""
    try:
        with readable(called(source)):
            records = opened(source)
            _detected(records.head(), records)
    except TraceError:
        return False
    return True


def _warnings(rollout: Rollout) -> tuple[str, ...]:
    """The reader's doubts, and what the trace should hold in pairs and does not."""
    found = (*unpaired(rollout), *unanswered(rollout))
    return (*rollout.warnings, *(text for text in found if text not in rollout.warnings))


def _linked(chosen: Format, records: Records) -> Format:
    """The format with records that hang on nothing linked by file order."""
    if chosen.name != "claude-code":
        raise TraceError(
            f"{records.name}: is of the format {chosen.name}, expected claude-code: only its "
            "records are linked by their parents, which may be missing"
        )
    return replace(chosen, reads=partial(claude_code.reads, link=True))


def _named(name: str) -> Format:
    for known in FORMATS:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in FORMATS)
    raise TraceError(f"unknown format {name!r}; expected one of {names}")


def _detected(head: list[Record], records: Records) -> Format:
    for known in FORMATS:
        if known.detects(head):
            return known
    first = head[0]
    what = f"the value {shown(first.value)}"
    if isinstance(first.value, dict):
        what = f"a record with the keys {shown(', '.join(first.value))}"
    names = ", ".join(known.name for known in FORMATS)
    raise TraceError(
        f"{records.name}:{first.line}: {what}, which is no known format; "
        f"expected one of {names} (see `mwviz formats`); --map reads any other log of calls"
        f"{_damaged(records)}"
    )


def _damaged(records: Records) -> str:
    """That the file is damaged, which may be why nothing else was found in it."""
    if not records.damage:
        return ""
    first = records.damage[0]
    places = counted(len(records.damage), "place")
    return f"; the file is damaged in {places}, first line {first.line}: {first.what}"


def _no_folder(records: Records, chosen: Format) -> str:
    names = ", ".join(known.name for known in FORMATS if known.folder)
    return (
        f"{records.name}: is {records.holds} of the format {chosen.name}, expected one of them; "
        f"`mwviz app` opens all files of a folder (folders are read as one trace of {names})"
    )


def _no_calls(records: Records, chosen: Format) -> str:
    if not records.damage:
        return f"{records.name}: no calls in it, expected at least one of format {chosen.name}"
    first = records.damage[0]
    places = counted(len(records.damage), "damaged place")
    return (
        f"{records.name}:{first.line}: no calls, {places}, the first: "
        f"{first.what} (format {chosen.name})"
    )
