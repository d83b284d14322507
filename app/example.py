"""The rollout of the Learn page: 24 words, one a token, judged and scored by the real library."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from mwviz.analysis import Analysis, analyse
from mwviz.figures import mask_figure
from mwviz.figures.histogram import CLEAR
from mwviz.figures.palette import Theme
from mwviz.leaks import sources
from mwviz.rollout import Call, Rollout
from mwviz.views import method_named
from mwviz.windows import NAMES, class_window
from mwviz_app import measured

WORDS = (
    *("Answer", "briefly", "where", "does", "Ada", "live"),
    *("find", "Ada"),
    *("Ada", "moved", "to", "Oslo"),
    *("find", "Oslo"),
    *("Oslo", "lies", "in", "Norway"),
    *("summary",),
    *("Ada", "in", "Oslo"),
    *("Norway", "Done"),
)
"""Text of each token; two places may say the same and are two tokens."""
TOKENS = (
    *(21350, 13099, 837, 1072, 34099, 2330),
    *(1042, 34099),
    *(34099, 4935, 288, 41730),
    *(1042, 41730),
    *(41730, 5721, 281, 14197),
    *(7127,),
    *(34099, 281, 41730),
    *(14197, 38063),
)
"""The words as the embedded model reads them, one token each."""
QUESTION, SEARCH, RESULT = range(6), range(6, 8), range(8, 12)
AGAIN, FOUND, ASK = range(12, 14), range(14, 18), range(18, 19)
SUMMARY, ANSWER = range(19, 22), range(22, 24)
CALLS = (
    ((QUESTION,), SEARCH),
    ((QUESTION, SEARCH, RESULT), AGAIN),
    ((QUESTION, SEARCH, RESULT, AGAIN, FOUND, ASK), SUMMARY),
    ((QUESTION, SUMMARY, AGAIN, FOUND), ANSWER),
)
"""Prompt and sampled words of each call; before the last one the oldest turn left."""
LETTERS = {"none": "", "agree": "", "shifted": "", "self": ""}
"""What stands in a cell of the mask; the first letter of its class elsewhere."""
WRONG = ("future", "erased", "stale", "foreign", "lost")
COMPARED = ("rightmost", "replay", "call_by_call", "logit_tree", "packed_mask")
NAIVE = ("rightmost", "replay")
FIRST_LEAK = {"rightmost": 3, "replay": 7}
"""The target that shows best what is wrong with a layout."""


class Step(NamedTuple):
    """One step of the lesson."""

    name: str
    method: str
    """Whose matrix it shows."""
    told: tuple[str, ...]
    lays_out: bool = True
    """False while only the contexts are told."""
    picks: bool = False
    """Whether the reader picks the layout and a word."""


STEPS = (
    Step(
        "1 Evict",
        "call_by_call",
        (
            "An agent calls the model four times. It sampled the words in ⟦brackets⟧; all others "
            "were given to it.",
            "Before call 3 the context was compacted: the first search and its result left, and "
            "the summary that call 2 had sampled came in their place. The latest turn was kept.",
            "The matrix shows the truth: one row a sampled word, one column a word of text in the "
            "order in which it was written. A filled cell: that word was in the context.",
        ),
        lays_out=False,
    ),
    Step(
        "2 Lay out",
        "rightmost",
        (
            "A trainer needs sequences. The simplest keeps only the last context and trains every "
            "sampled word that is still in it. mwviz calls that rightmost.",
            "Two things go wrong. Evicted words are never trained: coverage falls. And the words "
            "of the kept turn now stand behind a summary that was written after them.",
        ),
    ),
    Step(
        "3 Leak",
        "replay",
        (
            "Another simple layout, replay, feeds every word once in the order of writing. "
            "Coverage is full and nothing comes from the future.",
            "But nothing ever leaves either: the answer is trained beside the search and the "
            "result that had been evicted. It is stale text that the agent could not read.",
            "Compare the two: pick a layout and a sampled word, and read what it sees and misses.",
        ),
        picks=True,
    ),
    Step(
        "4 Fix",
        "packed_mask",
        (
            "Exact methods give every sampled word the context it was sampled from. packed_mask "
            "puts the tree of all contexts into one row: what two calls share stands there once, "
            "what was kept after the eviction is encoded again, and a mask shows each word its own "
            "path only.",
            "Every word trains once, no cell differs from the truth, and the row is shorter than "
            "all contexts one after another.",
        ),
    ),
)


@lru_cache(maxsize=1)
def example() -> Analysis:
    """The analysis of the 24 words."""
    calls = []
    for index, (prompt, sampled) in enumerate(CALLS):
        ids = [word for part in prompt for word in part]
        calls.append(
            Call(
                id=str(index),
                prompt_ids=np.array(ids, dtype=np.int32),
                completion_ids=np.array(sampled, dtype=np.int32),
                lineage="agent",
            )
        )
    return analyse(Rollout("example", tuple(calls), semantics="re_prefill"))


def contexts() -> str:
    """Each call on a line: what it was given, and in brackets what it sampled."""
    lines = []
    for index, (prompt, sampled) in enumerate(CALLS):
        given = " ".join(WORDS[word] for part in prompt for word in part)
        lines.append(f"call {index}   {given} ⟦{' '.join(WORDS[word] for word in sampled)}⟧")
    return "\n".join(lines)


def rows(method: str) -> str:
    """Each sequence that a method feeds to the model; in brackets the words that it trains."""
    tree = example().tree
    lines = []
    for index, row in enumerate(example().view(method).rows):
        nodes = row.nodes.tolist()
        trained = set()
        for owner in tree.token[row.edges.target].tolist():
            shown = [node for node in nodes if tree.origin[node] == owner]
            trained.add(owner if owner in nodes else shown[0])
        words = [WORDS[word] for word in row.token_ids(tree).tolist()]
        said = [
            f"⟦{word}⟧" if node in trained else word
            for node, word in zip(nodes, words, strict=True)
        ]
        lines.append(f"row {index}    {' '.join(said).replace('⟧ ⟦', ' ')}")
    return "\n".join(lines)


def mask(method: str, theme: Theme) -> go.Figure:
    """Every sampled word against every word; a letter in each cell says its class."""
    tree = example().tree
    window = class_window(
        tree, example().view(method), range(len(tree.token)), range(len(tree.birth))
    )
    owners = [*window.owners.tolist(), *tree.token.tolist()]
    figure = mask_figure(tree, window, [WORDS[tree.ids[node]] for node in owners], theme=theme)
    letters = [LETTERS.get(name, name[0].upper()) for name in NAMES]
    figure.update_traces(
        text=np.array(letters, dtype=object)[window.cells],
        texttemplate="%{text}",
        xgap=2,
        ygap=2,
        selector={"type": "heatmap"},
    )
    figure.update_xaxes(tickmode="linear", dtick=1, tickangle=-60, title="")
    figure.update_yaxes(tickmode="linear", dtick=1, title="")
    return figure.update_layout(
        margin={"l": 110, "r": 10, "t": 44, "b": 96},
        paper_bgcolor=CLEAR,
        plot_bgcolor=CLEAR,
    )


def word(target: int) -> str:
    """A sampled word."""
    tree = example().tree
    return WORDS[int(tree.ids[tree.token[target]])]


def sampled_words() -> list[str]:
    """Every target as its call and word."""
    return [f"call {call}: {word(at)}" for at, call in enumerate(example().tree.call.tolist())]


def causes(method: str, target: int) -> pd.DataFrame:
    """What one sampled word sees too much or misses, one row a stretch of text."""
    tree = example().tree
    words = [WORDS[word] for word in tree.ids[tree.birth].tolist()]
    place = {node: index for index, node in enumerate(tree.birth.tolist())}
    found = []
    for span in sources(example(), method, target):
        first = place[span.first_node]
        found.append(
            {
                "": "leaks in" if span.leaks else "missing",
                "class": span.name,
                "words": " ".join(words[first : first + span.tokens]),
                "from call": span.call,
            }
        )
    return pd.DataFrame(found)


def budget() -> pd.DataFrame:
    """One row a method: sequences and words fed, words trained, cells that differ, drift."""
    analysis = example()
    found = []
    for name in COMPARED:
        view, pairs = analysis.view(name), analysis.pairs(name)
        wrong = sum(n for kind, n in pairs.totals.items() if kind in WRONG)
        found.append(
            {
                "method": name,
                "rows": len(view.rows),
                "words fed": sum(row.size for row in view.rows),
                "sampled words trained": f"{int((view.multiplicity > 0).sum())} of {view.targets}",
                "wrong cells": wrong,
                "largest drift, nats": measured.largest(name),
                "exact": "yes" if method_named(name).exact else "no",
            }
        )
    return pd.DataFrame(found)
