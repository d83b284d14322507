"""The formats that are event logs with rewrite rules, most particular first."""

from __future__ import annotations

from mwviz.formats import (
    codex,
    gemini_cli,
    opencode,
    openhands,
    openhands_v0,
    pi,
    qwen_agent,
    qwen_code,
)
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
    Format(
        "qwen-code",
        "Qwen Code chat",
        qwen_code.detects,
        qwen_code.reads,
        "Contexts are rebuilt from an event log; a compression holds the history that it leaves.",
        "System prompt, tool list, token ids, logprobs; what a compression of an early version "
        "left.",
    ),
    Format(
        "gemini-cli",
        "Gemini CLI chat, log or document",
        gemini_cli.detects,
        gemini_cli.reads,
        "Contexts are rebuilt from a log that holds every changed list of messages; a document of "
        "an old version is exact only if nothing was compressed.",
        "System prompt, tool list, thinking, token ids, logprobs; in a document every eviction.",
    ),
    Format(
        "openhands",
        "OpenHands conversation, folder or list of events",
        openhands.detects,
        openhands.reads,
        "Contexts are rebuilt from an event log; a condensation names the events it forgets. Exact "
        "token ids where the engine returned them.",
        "The summariser's own calls, logprobs, tool lists as the provider got them.",
        folder=True,
    ),
    Format(
        "openhands-v0",
        "OpenHands event stream of the first generation",
        openhands_v0.detects,
        openhands_v0.reads,
        "Replies are exact, contexts rebuilt; a condensation names the events it forgets.",
        "The words around observations and context, the summariser's own calls, token ids, "
        "logprobs.",
        folder=True,
    ),
    Format(
        "opencode",
        "OpenCode session: export, storage folder or database",
        opencode.detects,
        opencode.reads,
        "Contexts are rebuilt from stored messages; each call reads what was not yet pruned.",
        "System prompt, tool list, what plugins changed, what the summariser was asked, token ids, "
        "logprobs.",
        folder=True,
    ),
    Format(
        "qwen-agent",
        "Qwen-Agent message list",
        qwen_agent.detects,
        qwen_agent.reads,
        "Exact only for prompts that were shorter than the harness's limit.",
        "Every truncation (it happens on a copy; `mwviz convert --truncation` works it out again), "
        "tool list, token ids, logprobs.",
    ),
)
