"""The formats that are event logs with rewrite rules, most particular first."""

from __future__ import annotations

from mwviz.formats import codex
from mwviz.formats.format import Format

LOG_FORMATS: tuple[Format, ...] = (
    Format(
        "codex",
        "Codex session",
        codex.detects,
        codex.reads,
        "Contexts are rebuilt from an event log; a compaction names the history that it leaves.",
        "Tool list, token ids, logprobs; reasoning and remote summaries (encrypted in the file); "
        "evictions that left no record.",
    ),
)
