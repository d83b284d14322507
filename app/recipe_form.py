"""The train lab's questions, answered by a plan."""

from __future__ import annotations

import streamlit as st

from mwviz.display import visible
from mwviz.engine import embedded
from mwviz.errors import ViewError
from mwviz.training.plan import Plan
from mwviz.training.recipe import OBJECTIVES, Recipe
from mwviz.views import METHODS
from mwviz_app import lab, state, widgets

FIRST_ARMS = ("rightmost", "replay", "packed_mask", "sdcc")
"""Arms that a new comparison has: both naive rows, the exact one, the one between them."""
OBJECTIVE_NAMES = {
    "nll": "likelihood of the tokens",
    "policy": "policy gradient on recorded rewards",
}


def pick() -> Plan | None:
    """What the user wants to run; None while a choice is missing, which is then said."""
    known = lab.choices(state.opened())
    left, right = st.columns(2, gap="medium")
    with left:
        chosen = st.multiselect(
            "Rollouts to train on",
            list(known),
            default=list(known)[:1],
            format_func=lambda one: visible(known[one], keep=""),
            help="Those of the open trace, and the demos. Open another trace on the Open page.",
        )
        sources = state.traces()
        watched = st.multiselect(
            "Watch on the rollouts of",
            list(dict.fromkeys(one.trace for one in known)),
            format_func=lambda trace: visible(sources[trace].name, keep=""),
            help="Held out, without those that are trained on. Empty: they are watched.",
        )
        methods = st.multiselect(
            "Arms",
            ["exact", *(method.name for method in METHODS)],
            default=FIRST_ARMS,
            help="One copy of the model each. exact takes the cheapest exact layout.",
        )
    with right:
        recipe, every, model = _recipe()
    if not chosen or not methods or recipe is None:
        missing = "rollout" if not chosen else "arm" if not methods else "valid recipe"
        widgets.empty(f"No {missing} is chosen.", "Choose at least one.")
        return None
    files = dict.fromkeys(str(sources[one.trace].path) for one in chosen)
    held = dict.fromkeys(str(sources[trace].path) for trace in watched)
    whole = sum(len(state.trace(trace).rollouts) for trace in {one.trace for one in chosen})
    ids = [state.trace(one.trace).rollouts[one.rollout].id for one in chosen]
    return Plan(
        files=tuple(files),
        methods=tuple(methods),
        recipe=recipe,
        rollouts=() if whole == len(chosen) else tuple(ids),
        held_out=tuple(held),
        watch=every,
        model=model or embedded.EMBEDDED,
        device=state.launch().device or "auto",
    )


def _recipe() -> tuple[Recipe | None, int, str | None]:
    """Recipe, steps between looks, and model."""
    model = widgets.model_picker("lab", state.opened())
    if model is None and embedded.path() is None:
        widgets.empty("The embedded model is not here.", "Run `mwviz doctor --install-model`.")
    objective = st.segmented_control(
        "Objective",
        OBJECTIVES,
        default="nll",
        required=True,
        format_func=lambda name: OBJECTIVE_NAMES[name],
    )
    first, second, third = st.columns(3)
    steps = first.number_input("Steps", 1, 100_000, 20)
    every = second.number_input("Look every", 0, 100_000, 5, help="Steps; 0: first and last only.")
    tokens = third.number_input("Batch (tokens)", 1, 10**7, 2048, step=512)
    rate = first.number_input("Learning rate", 1e-9, 1.0, 1e-4, format="%.1e", step=1e-5)
    seed = second.number_input("Seed", 0, 2**31, 0)
    rank = third.number_input("LoRA rank", 0, 1024, 8, help="0 trains all weights.")
    try:
        recipe = Recipe(
            steps=int(steps),
            learning_rate=float(rate),
            batch_tokens=int(tokens),
            seed=int(seed),
            objective="policy" if objective == "policy" else "nll",
            lora_rank=int(rank) or None,
        )
    except ViewError as error:
        widgets.show_error(error)
        return None, int(every), model
    return recipe, int(every), model
