"""Every word, class, flag, kind of junction and method of mwviz, a sentence each."""

from __future__ import annotations

import pandas as pd

from mwviz.figures.palette import CLASS_SENTENCES
from mwviz.views import METHODS

SENTENCES = {
    "rollout": "The model calls of one agent episode, oldest first, sub-agents included.",
    "call": "One request to the model: its exact prompt and the completion it sampled.",
    "context": "What a token was sampled from: the prompt of its call and the completion up to it.",
    "lineage": "The calls of one agent; a sub-agent has a lineage of its own.",
    "junction": "A call whose prompt does not start with the whole context of the call before it.",
    "eviction": "A junction that took text out of the context: a summary, a drop, a stub.",
    "tree": "All prompts and completions as one tree: what two calls share stands in it once.",
    "segment": "A stretch of the tree that the same calls pass.",
    "branch": "A path through the tree from a root to a leaf.",
    "leaf": "A segment that nothing continues: the end of a branch.",
    "owner": "The place in the tree where a sampled token was generated.",
    "copy": "A place that shows a token again after an eviction: context, never trained.",
    "target": "One sampled token to train.",
    "view": "A rollout laid out for training by one method.",
    "method": "A named rule that lays a rollout out for training.",
    "coverage": "Share of all sampled tokens that a view trains.",
    "drift": "Log p under the view minus log p in the true context, same weights, in nats.",
    "gap": "Log p under the view minus the log-probability that the sampler recorded, in nats.",
    "KL": "How far a whole prediction moves: KL(true context || view), all tokens, in nats.",
    "loss weight": "A token's share of a view's loss against an even share; 1 in an exact view.",
    "advantage": "Reward against others of the same task; a policy gradient multiplies by it.",
    "B - A": "Two scorings of the same tokens subtracted: two views, models or checkpoints.",
    "floor": "Drift between two layouts that must agree exactly: what rounding alone looks like.",
    "diverging": "A token whose context in the view differs from its true one.",
    "fidelity": "How sure the contexts are: exact, rebuilt, partial or unknown.",
    "re-prefill": "After a junction the new prompt is encoded from scratch; most agents work so.",
    "kv-retain": "Evicted entries leave the cache; what stays was computed while it saw them.",
    "SDCC": "A further loss term that pulls a naive row to what the model says in true contexts.",
    "nat": "Unit of log-probabilities: one nat is a factor of 2.72 in probability.",
}
"""The words of the theory."""
FLAGS = {
    "duplicate": "The token sees this text more than once.",
    "tainted": "The token sees this text, but the text itself was computed from another context.",
}
"""What a pair may be besides its class; `shifted` is told beside the classes."""
KINDS = {
    "summary": "A summary replaced all that stood after the shared start.",
    "summary_tail": "A summary replaced old text; the latest turns stayed behind it.",
    "placeholder": "Each evicted message left a short stub in its place.",
    "drop": "Text left and nothing came in its place; what stood behind it stayed.",
    "rewind": "The context was cut back to an earlier point.",
    "rewrite": "Other text stands where the evicted text stood.",
    "restore": "Text that had left stands in the context again.",
    "template_strip": "Only earlier reasoning left, as chat templates do.",
    "fold": "A finished part of the work was folded into a short result.",
    "retry": "The same prompt was sent again; not an eviction.",
    "retokenise": "The same text in other token ids; not an eviction.",
    "reserialise": "The same content in other JSON spacing or key order; not an eviction.",
    "header_change": "Only system messages changed; not an eviction.",
    "fork": "The log says that another agent starts here; not an eviction.",
    "unexplained": "The provider counts fewer tokens than before and the log does not say which.",
}
"""Kinds of junctions."""


def words() -> pd.DataFrame:
    """The words of the theory."""
    return _table("word", SENTENCES)


def classes() -> pd.DataFrame:
    """What one cell of the matrix can be, its flags behind the classes."""
    return _table("class", {**CLASS_SENTENCES, **FLAGS})


def kinds() -> pd.DataFrame:
    """What a junction can be."""
    return _table("junction", KINDS)


def methods() -> pd.DataFrame:
    """What each method feeds to the model, and why it is not exact where it is not."""
    exact = {None: "never", "re_prefill": "re-prefill", "kv_orig": "kv-retain"}
    return pd.DataFrame(
        [
            {
                "method": method.name,
                "exact under": exact.get(method.exact_for, str(method.exact_for)),
                "it feeds": method.summary,
                "but": method.why_not,
            }
            for method in METHODS
        ]
    )


def _table(name: str, sentences: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame({name: list(sentences), "meaning": list(sentences.values())})
