"""Numbers a token that the page may colour by, but which its payload does not hold.

They travel apart: KL once the distances of a view are measured, B - A once two scorings are chosen,
advantages where a file tells rewards. What is not known is told with its reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from mwviz.analysis import Analysis
from mwviz.compare import Comparison
from mwviz.display import visible
from mwviz.distances import Distances
from mwviz.errors import MwvizError
from mwviz.quantise import sent
from mwviz_app import asked, contrasts, kept, state, studies
from mwviz_app.scored import Setup
from mwviz_app.sources import version_of
from mwviz_app.state import Opened

Told = dict[str, Any]
"""One number: its kind, its view, and codes with floor and scale, or why there are none."""
SMALLEST = 1e-3
"""An advantage nearer to 0 than this is told as 0."""

_mount = st.components.v2.component("mwviz.numbers", js="numbers.js")


def send(
    opened: Opened,
    analysis: Analysis,
    *,
    setup: Setup | None,
    against: str,
    comparisons: dict[str, Comparison],
) -> None:
    """Gives the browser all that is known now; the same again sends nothing."""
    told = [*_distances(opened, setup, comparisons), _advantage(opened, analysis)]
    beside = _beside(opened, against)
    if beside is not None:
        told.append(beside)
    data: dict[str, object] = {"numbers": told}
    shown = asked.shown()
    if shown is not None:
        data["show"] = shown._asdict()
    _mount(key="numbers", data=data)


def _distances(
    opened: Opened, setup: Setup | None, comparisons: dict[str, Comparison]
) -> list[Told]:
    """KL of every view whose distances were measured with this model."""
    model = studies.model_of(opened, setup)
    found = []
    for view in comparisons:
        study = studies.last(opened, "distances", view, model, 0)
        if study is not None and study.status == "done" and study.result is not None:
            tokens = Distances.from_json(study.result).tokens
            if tokens is not None:
                found.append({"kind": "kl", "view": view, **tokens._asdict()})
    return found


def _advantage(opened: Opened, analysis: Analysis) -> Told:
    """The advantage of the rollout among all of its file, the same for each of its tokens."""
    version = version_of(state.traces()[opened.trace].path)
    held = kept.held(version).rollouts
    if held == 1:
        why = "the file holds one rollout: an advantage needs the rewards of others of its task"
        return {"kind": "advantage", "why": why}
    try:
        worth = kept.advantages(version)[min(opened.rollout, held - 1)]
    except MwvizError as error:
        return {"kind": "advantage", "why": visible(str(error))}
    of_tokens = np.full(len(analysis.tree.token), worth, dtype=np.float32)
    return {"kind": "advantage", **sent(of_tokens, SMALLEST)._asdict()}


def _beside(opened: Opened, against: str) -> Told | None:
    chosen = asked.compared(opened)
    found = contrasts.between(opened, chosen, against) if chosen is not None else None
    if chosen is None or found is None:
        return None
    codes = sent(found.change, found.threshold)._asdict()
    return {"kind": "beside", "about": contrasts.about(chosen, found), **codes}
