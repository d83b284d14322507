"""The formats that are event logs with rewrite rules, most particular first."""

from __future__ import annotations

from mwviz.formats import codex, pi
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
    Format(
        "pi",
        "pi session",
        pi.detects,
        pi.reads,
        "Contexts are rebuilt from an event log; a compaction names the first entry that it keeps.",
        "System prompt, tool list, the words around a summary, token ids, logprobs; in old "
        "versions whether a stopped reply was sent again.",
    ),
)
