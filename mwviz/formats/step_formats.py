"""The step records of research harnesses in which a memory takes the place of the past."""

from __future__ import annotations

from mwviz.formats import agentfold, mem1, memagent, memex, resum, tc_rag
from mwviz.formats.format import Format

STEP_FORMATS: tuple[Format, ...] = (
    Format(
        "agentfold",
        "AgentFold results (full_traj)",
        agentfold.detects,
        agentfold.reads,
        "Exact user message and reply of every turn; each fold is named by the reply before.",
        "System prompt and tool list, replies that could not be read, token ids, logprobs.",
    ),
    Format(
        "memexrl",
        "MemexRL episodes",
        memex.detects,
        memex.reads,
        "Exact messages of every call, from the segments that compressions ended.",
        "Token ids (its training rows have them: slime); without segments a call that compressed.",
    ),
    Format(
        "tc-rag",
        "TC-RAG traces (both message lists of the agent)",
        tc_rag.detects,
        tc_rag.reads,
        "The stack that each call was sent is replayed from all that was ever pushed on it.",
        "Where a reply ended that no observation followed; without the stack that was left, the "
        "words of the note behind a backtrack; token ids, logprobs.",
    ),
    Format(
        "mem1",
        "MEM1 rows (q, t0, r0, i0 ...)",
        mem1.detects,
        mem1.reads,
        "Contexts are rebuilt by its rule: the question, the last reply and its result.",
        "Whether the run cleared its past at all; replies that neither search nor answer; token "
        "ids, logprobs.",
    ),
    Format(
        "memagent",
        "MemAgent memory logs (also InfMem conversations)",
        memagent.detects,
        memagent.reads,
        "Question, memory and text of each call; a conversation holds exact messages.",
        "The harness's words around them, thoughts that were cut off, token ids, logprobs.",
    ),
    Format(
        "resum",
        "ReSum results (WebResummer; also its sister agents)",
        resum.detects,
        resum.reads,
        "Contexts are rebuilt by its rule: a summary leaves the system prompt and itself.",
        "The summariser's calls; the words that replace the last message at the context's limit; "
        "token ids, logprobs.",
    ),
)
