"""Numbers a token that the page may colour by, but which its payload does not hold.

They travel apart: KL once the distances of a view are measured, B - A once two scorings are chosen,
advantages where a file tells rewards. What is not known is told with its reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mwviz.compare import Comparison
from mwviz.contrast import Contrast, contrast
from mwviz.display import visible
from mwviz.distances import Distances
from mwviz.errors import MwvizError
from mwviz.quantise import sent
from mwviz.wording import counted, digits, percent
from mwviz_app import asked, kept, setups, state, studies
from mwviz_app.scored import Chosen, Setup, Side
from mwviz_app.sources import version_of
from mwviz_app.state import Opened

Told = dict[str, Any]
"""One number: its kind, its view, and codes with floor and scale, or why there are none."""
SMALLEST = 1e-3
"""An advantage nearer to 0 than this is told as 0."""


def distances(
    opened: Opened, setup: Setup | None, comparisons: dict[str, Comparison]
) -> list[Told]:
    """KL of every view whose distances were measured with this model."""
    found = []
    for view in comparisons:
        study = studies.asked(opened, "distances", view, setup, 0)
        if study is not None and study.status == "done" and study.result is not None:
            tokens = Distances.from_json(study.result).tokens
            if tokens is not None:
                found.append({"kind": "kl", "view": view, **tokens._asdict()})
    return found


def advantage(opened: Opened) -> Told:
    """The advantage of the rollout among all of its file: one code for all its tokens."""
    version = version_of(state.source(opened.trace).path)
    held = kept.held(version).rollouts
    if held == 1:
        why = "the file holds one rollout: an advantage needs the rewards of others of its task"
        return {"kind": "advantage", "why": why}
    try:
        worth = kept.advantages(version)[min(opened.rollout, held - 1)]
    except MwvizError as error:
        return {"kind": "advantage", "why": visible(str(error))}
    return {"kind": "advantage", **sent(np.array([worth], dtype=np.float32), SMALLEST)._asdict()}


def beside(opened: Opened, against: str) -> list[Told]:
    """B - A of the two scorings that the session chose for this rollout; empty if it chose none."""
    chosen = asked.compared(opened)
    found = between(opened, chosen, against) if chosen is not None else None
    if chosen is None or found is None:
        return []
    codes = sent(found.change, found.threshold)._asdict()
    return [{"kind": "beside", "about": about(opened, chosen, found), **codes}]


def between(opened: Opened, chosen: Chosen, against: str) -> Contrast | None:
    """The two sides; None if one of them is not scored (any more)."""
    a, b = (_scored(opened, side, against) for side in (chosen.a, chosen.b))
    return contrast(a, b, chosen.quantity) if a is not None and b is not None else None


def about(opened: Opened, chosen: Chosen, told: Contrast) -> str:
    """What is subtracted from what, over which tokens, in a sentence or two."""
    shares = [percent(share) for share in told.coverage]
    floors = [digits(floor) for floor in told.floors]
    found = state.scored(opened)
    a, b = (", ".join((side.name, *setups.apart(side.setup, found))) for side in chosen[:2])
    return (
        f"{told.quantity} of B ({b}) minus that of A ({a}), over the "
        f"{counted(int(told.both.sum()), 'sampled token')} that both train; A covers {shares[0]}, "
        f"B {shares[1]}. Floors: A {floors[0]}, B {floors[1]}, of the difference "
        f"{digits(told.threshold)} nats."
    )


def _scored(opened: Opened, side: Side, against: str) -> Comparison | None:
    return state.comparisons(opened, side.setup, against).get(side.view)
