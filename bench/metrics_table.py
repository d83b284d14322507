"""Makes `docs/metrics.md`: every metric with unit, direction and token set, and trainers' names.

python bench/metrics_table.py > docs/metrics.md
"""

from __future__ import annotations

from mwviz.compare import COLUMNS, DISTANCES
from mwviz.metrics import FOREIGN, METRICS, OF_COLUMNS

BETTER = {"lower": "lower", "higher": "higher", "zero": "nearer 0", "none": "neither"}
HEAD = """\
# Metrics

`d = log p_view - log p_reference` of one target, in nats, and `r = exp(d)`. The reference is an
exact method: then d is the *drift*. Or it is what was recorded when the token was sampled: then d
is the *gap*, which also holds the noise of two engines and the age of the weights.

Every number belongs to a token set: `all` targets that the view covers, the `diverging` ones, whose
context differs from the true one, or the `control`, the covered ones that do not diverge. Always
read it beside the coverage, and never without the number of the diverging set: the mean over all is
`f x (mean over diverging) + (1 - f) x (mean over control)`, with f the diverging share.

Made by `python bench/metrics_table.py`.
"""
STRUCTURE = (
    (
        "coverage",
        "share",
        "higher",
        "share of all sampled tokens that the view trains; null without any",
    ),
    ("multiplicity", "targets", "all at 1", "how many targets train how many times"),
    ("tree_ratio", "ratio", "lower", "tree tokens / branch tokens"),
)

DETAILS = (
    (
        "gap",
        "nats",
        "mean of log p_trainer - log p_sampler, and its parts: `floor`, `conditioning`, "
        "`retokenisation`, `staleness`, which add up; what cannot be separated is one part",
    ),
    (
        "distances",
        "nats, 0 to 1",
        "means over covered tokens: `kl`, `kl_reverse`, `js`, total "
        "variation `mean.measured` beside what the KL allows, `mean.value`; `flips`; targets above "
        "their own bound, `broken`, always 0",
    ),
    (
        "junctions",
        "nats, 0 to 1",
        "the same over the diverging tokens that each junction can be the "
        "reason of: of later junctions what they miss or foresee, of earlier ones what is stale",
    ),
    (
        "policy",
        "share",
        "`clipped_share` of tokens whose ratio the advantage pushes outside `clip`; "
        "advantages of the batch, else reward minus the mean of the same task, over its spread",
    ),
    ("cost", "seconds, bytes", "predicted before the run, and seconds that it took"),
)
WHOLE = (
    (
        "estimate",
        "nats",
        "mean of log p_recorded - log q_student over SDCC's tokens, with a 95% "
        "bootstrap interval over branches; a KL only under its `conditions`; at least 30 branches",
    ),
    (
        "trajectory",
        "0 to 1",
        "what the mean summed KL of the rollouts allows whole trajectories to "
        "be apart, and what it is worth",
    ),
)
ATTENTION = """Attention mass: of the attention that a token's query spends in a layer, mean over
heads, the share on some text, 0 to 1, from the model's own weights (eager attention, float32
sums). Text that the view shows is measured under the view (`here`), text that it lacks in the
true context (`true`), where `agree` is the rest. On wrong text lower is better. Its floor is the
largest share of a layer that moves when further tokens stand behind the same true context, which
only rounding can do. Its coverage is the share that stands on text of a class: the rest is on
attention sinks and on a trainer's tokens that are in no context. It is one token's number, at its
query, and a mean over layers can hide where in the model it looks: read it by layer. Mass is not
effect: a text that is looked at may change nothing, so read it beside `change`. Rows of over 2^27
weights a layer are refused, as are models of which some layer shows none. In the app: *Where does
it look?*.
"""
"""What the shares of `why` are."""
COMMANDS = (
    (
        "why",
        "nats, share",
        "`classes`: attention on each pair class at the query, mean over layers and heads, and the "
        "change of log p if its text is hidden; `causes`: that change by source; `looks`: that "
        "attention by text; `attention`: both by layer",
    ),
    ("leaks", "tokens", "which sampled tokens a span leaks into, or is missing from, by class"),
    (
        "undo",
        "nats",
        "with what a junction evicted put back, minus without: change of log p of the "
        "calls behind it, and KL(with || without), the information lost at the junction",
    ),
)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    escaped = (tuple(cell.replace("|", "\\|") for cell in line) for line in lines)
    return "\n".join("| " + " | ".join(line) + " |" for line in escaped) + "\n"


def page() -> str:
    drift = [(f"`{m.name}`", m.unit, BETTER[m.better], m.summary) for m in METRICS]
    others = [
        (f"`{m.name}`", m.unit, BETTER[m.better], m.summary, f"`{m.column}`") for m in OF_COLUMNS
    ]
    structure = [(f"`{name}`", unit, better, says) for name, unit, better, says in STRUCTURE]
    foreign = [(f.trainer, f"`{f.name}`", f"`{f.ours}`", f.differs or "-") for f in FOREIGN]
    columns = [(f"`{name}`", says) for name, says in (COLUMNS | DISTANCES).items()]
    head = ("metric", "unit", "better", "what it is")
    return "\n".join(
        (
            HEAD,
            "## Of drift or gap\n\n`Comparison.drift(token_set)`, `Comparison.gap(token_set)`.\n",
            table(head, drift),
            "## Of other columns\n\n`Comparison.metrics(token_set)`; distances need the model:\n"
            "`comparison.with_distances(analysis.divergence(method))`.\n",
            table((*head, "column"), others),
            "## Of a view\n\n`metrics.structure(tree, view)`, over all sampled tokens. "
            "`inspect --json` has coverage and multiplicity,\nand why tokens are not trained "
            "(`uncovered`).\n",
            table(head, structure),
            "## What trainers call them\n\nTrainers compare with the recorded log-probability, so "
            "each is a metric of the gap.\n",
            table(("trainer", "name there", "here", "differs"), foreign),
            "## What `score --details` adds\n\nUnder `details` of each method, and that of all "
            "rollouts of the file. A number that cannot be had is `refused`, with the reason.\n",
            table(("key", "unit", "what it is"), [(f"`{n}`", u, w) for n, u, w in DETAILS]),
            table(("of the file", "unit", "what it is"), [(f"`{n}`", u, w) for n, u, w in WHOLE]),
            "Recorded log-probabilities are those of the distribution that was sampled: the logits "
            "over the temperature. `--weights` says whose weights the model has: `sampler`, "
            "`trainer`, `same` (both), or `unknown`, which leaves floor and staleness together.\n",
            "## Of one token, text or junction\n",
            table(("command", "unit", "what it is"), [(f"`{n}`", u, w) for n, u, w in COMMANDS]),
            ATTENTION,
            "## Columns of a comparison\n\nOne row a target.\n",
            table(("column", "what it is"), columns),
        )
    )


if __name__ == "__main__":
    print(page(), end="")
