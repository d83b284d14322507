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
    ("coverage", "share", "higher", "share of all sampled tokens that the view trains"),
    ("multiplicity", "targets", "all at 1", "how many targets train how many times"),
    ("tree_ratio", "ratio", "lower", "tree tokens / branch tokens"),
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
            "## Of a view\n\n`metrics.structure(tree, view)`, over all sampled tokens.\n",
            table(head, structure),
            "## What trainers call them\n\nTrainers compare with the recorded log-probability, so "
            "each is a metric of the gap.\n",
            table(("trainer", "name there", "here", "differs"), foreign),
            "## Columns of a comparison\n\nOne row a target.\n",
            table(("column", "what it is"), columns),
        )
    )


if __name__ == "__main__":
    print(page(), end="")
