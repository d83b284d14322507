"""The formats that trainers write: rows of tokens, and steps."""

from __future__ import annotations

from mwviz.formats import (
    agent_loop,
    art,
    mask_spans,
    recording,
    rl_steps,
    rllm_gateway,
    text_dumps,
    tinker,
    trainer_rows,
)
from mwviz.formats.format import Format

ROWS = "Exact tokens as the trainer saw them; calls are the runs of trained tokens."
MASKED = "Sampled tokens that the trainer masked; where one of two calls in a row ended."

TRAINER_FORMATS: tuple[Format, ...] = (
    Format(
        "mask-spans",
        "MemoryWalker span records (l, r, L, R), triples (l, r, e) or (H_comp, H_T, {J, E})",
        mask_spans.detects,
        mask_spans.reads,
        "Contexts are what the mask of the training row shows each token.",
        "The prompts that were sent, and the ids that were sampled at the borders of pieces.",
    ),
    Format(
        "recording",
        "Recordings of the sample research agent",
        recording.detects,
        recording.reads,
        "Exact tokens, logprobs and messages; the harness says each eviction.",
        "Nothing of a call; scores of other tokens than the sampled ones.",
    ),
    Format(
        "verl-agent-loop",
        "verl agent-loop outputs as JSON (also FoldAgent branches)",
        agent_loop.detects,
        agent_loop.reads,
        "Exact tokens as the trainer saw them; a branch's calls stand where it was opened.",
        "Sampled tokens that were masked; ids that a branch's history was sampled with.",
    ),
    Format(
        "tinker",
        "Tinker trajectories as JSON",
        tinker.detects,
        tinker.reads,
        "Exact tokens and logprobs of every transition.",
        "What the harness did between two steps; images; anything, in summaries (lengths only).",
    ),
    Format(
        "text-dump",
        "Decoded training rows of verl, AReaL or TRL",
        text_dumps.detects,
        text_dumps.reads,
        "One row as the trainer saw it, as text: a call however many there were.",
        "The calls of a row, what of its response came from tools, contexts, token ids.",
    ),
    Format(
        "rllm",
        "rLLM episodes",
        rl_steps.detects_rllm,
        rl_steps.reads_rllm,
        "Exact tokens and logprobs of each step where the engine gave them; exact messages.",
        "What the harness did between two steps: it is derived from the prompts.",
    ),
    Format(
        "rllm-gateway",
        "rLLM model gateway: its database, or its traces as JSON",
        rllm_gateway.detects,
        rllm_gateway.reads,
        "Exact messages of each request; exact tokens and logprobs where the engine gave them.",
        "The tool list, unless raw requests were kept; what the harness did between two requests.",
    ),
    Format(
        "agent-lightning",
        "Agent Lightning rollouts with triplets",
        rl_steps.detects_lightning,
        rl_steps.reads_lightning,
        "Exact tokens of each request that the tracer kept.",
        "Requests that the adapter dropped: of equal prompts it keeps the last.",
    ),
    Format(
        "areal",
        "AReaL exported interactions",
        rl_steps.detects_areal,
        rl_steps.reads_areal,
        "Exact messages of each interaction.",
        "Token ids and logprobs: the export holds text only.",
    ),
    Format(
        "areal-rows",
        "AReaL trajectory tensors as JSON",
        trainer_rows.detects_areal,
        trainer_rows.reads_areal,
        ROWS,
        MASKED,
    ),
    Format(
        "art",
        "ART trajectories",
        art.detects,
        art.reads,
        "Exact requests and responses, with tokens where the engine returned them; older files: "
        "exact messages, a change of context in a history of its own.",
        "In older files token ids, logprobs and the order of calls across histories.",
    ),
    Format(
        "slime",
        "slime samples as JSON",
        trainer_rows.detects_slime,
        trainer_rows.reads_slime,
        ROWS,
        MASKED,
    ),
    Format(
        "prime-rl",
        "prime-rl training samples as JSON",
        trainer_rows.detects_prime,
        trainer_rows.reads_prime,
        ROWS,
        MASKED,
    ),
    Format(
        "trl",
        "TRL rollout rows as JSON",
        trainer_rows.detects_trl,
        trainer_rows.reads_trl,
        ROWS,
        MASKED,
    ),
    Format(
        "skyrl",
        "SkyRL generator output as JSON",
        trainer_rows.detects_skyrl,
        trainer_rows.reads_skyrl,
        ROWS,
        MASKED,
    ),
)
