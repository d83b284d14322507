"""What was read of a trace and what it can never show, as tables; knows no Streamlit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pandas as pd

from mwviz.analysis import Analysis
from mwviz.formats import FORMATS
from mwviz.rollout import Call
from mwviz.semantics import words
from mwviz.summary import warnings
from mwviz.trace import Trace
from mwviz.wording import counted


class Gap(NamedTuple):
    """A field that a call may lack, and what is impossible without it."""

    field: str
    lacks: Callable[[Call], bool]
    disables: str


CACHES = {
    "re_prefill": "encoded anew",
    "kv_orig": "kept where it stood",
    "kv_reindex": "kept and renumbered",
    "unknown": "not told",
}
"""What the log says that the cache did at changes of context."""
GAPS = (
    Gap(
        "messages",
        lambda call: call.prompt is None,
        "No roles and no messages: leaks are named by call only.",
    ),
    Gap(
        "token ids",
        lambda call: (
            call.prompt_ids is None or call.completion_ids is None or call.tokens == "rendered"
        ),
        "Tokens are rendered from the messages: drift is that of a rendering, not of what was "
        "sampled.",
    ),
    Gap(
        "logprobs",
        lambda call: call.logprobs is None,
        "No gap to what the sampler recorded; drift does not need it.",
    ),
    Gap(
        "temperature 1",
        lambda call: call.temperature != 1.0,
        "No gap: recorded logprobs compare only where the sampling temperature is known to be 1.",
    ),
    Gap(
        "lineage",
        lambda call: call.lineage is None,
        "Agents are told apart by their prompts, not by the log.",
    ),
    Gap(
        "usage",
        lambda call: call.usage is None or call.usage.prompt is None,
        "Evictions that only the provider's token counts would show stay unseen.",
    ),
    Gap(
        "weights",
        lambda call: call.weights is None,
        "Whether the policy changed between calls is not known.",
    ),
)


def rollouts(trace: Trace) -> pd.DataFrame:
    """One row a rollout: what it holds before anything is computed."""
    return pd.DataFrame(
        [
            {
                "rollout": rollout.id,
                "calls": len(rollout.calls),
                "reward": rollout.reward,
                "cache": ", ".join(CACHES.get(word, word) for word in words(rollout)),
                "reader's warnings": len(rollout.warnings),
            }
            for rollout in trace.rollouts
        ]
    ).astype({"reward": "float64"})


def gaps(analysis: Analysis) -> pd.DataFrame:
    """One row a field that some call lacks: how many calls, and what that rules out."""
    calls = analysis.rollout.calls
    rows = [
        {
            "not recorded": gap.field,
            "calls without": f"{missing:,} of {len(calls):,}",
            "so": gap.disables,
        }
        for gap in GAPS
        if (missing := sum(gap.lacks(call) for call in calls))
    ]
    return pd.DataFrame(rows, columns=["not recorded", "calls without", "so"])


def sentence(analysis: Analysis) -> str:
    """Calls, tokens and junctions of one rollout in words of our own."""
    tree, junctions = analysis.tree, analysis.junction_list
    by = Counter(junction.evidence for junction in junctions)
    evictions = sum(junction.is_eviction for junction in junctions)
    told = (
        f"{by['recorded']:,} recorded by the log, {by['derived']:,} derived from the prompts, "
        f"{by['usage']:,} unexplained"
    )
    return (
        f"{counted(len(analysis.rollout.calls), 'call')} of "
        f"{counted(len(tree.lineages), 'agent')}, {counted(len(tree.token), 'sampled token')}; in "
        f"the tree {counted(tree.budget['tree'], 'token')} for {tree.budget['calls']:,} sent "
        f"and sampled. Changes of context: {len(junctions):,} "
        f"({told}); evictions: {evictions:,}."
    )


def warned(trace: Trace, rollout: int) -> dict[str, tuple[str, ...]]:
    """Every doubt about a rollout, once each, by what it is about.

    Those that the column *reader's warnings* of `rollouts` counts stand apart from those on the
    whole file, and from those that only show once its contexts are rebuilt.
    """
    found: dict[str, tuple[str, ...]] = {}
    known: set[str] = set()
    for scope, texts in (
        ("of the reader", trace.rollouts[rollout].warnings),
        ("on the whole file", trace.warnings),
        ("on the rebuilt contexts", warnings(trace.analyses[rollout])),
    ):
        found[scope] = tuple(text for text in dict.fromkeys(texts) if text not in known)
        known.update(texts)
    return found


def unknowable(trace: Trace) -> str:
    """What no file of this format can tell; "" for a format that is not listed."""
    return next((form.unknowable for form in FORMATS if form.name == trace.format), "")
