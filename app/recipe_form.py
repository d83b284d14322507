"""The train lab's questions, answered by a plan: everything that `mwviz train` can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import streamlit as st

from mwviz.display import visible
from mwviz.engine import embedded
from mwviz.errors import TraceError, ViewError
from mwviz.scorer import STUDENTS
from mwviz.training.plan import Plan
from mwviz.training.recipe import OBJECTIVES, OWN, Recipe, arms
from mwviz.views import METHODS
from mwviz_app import kept, state, trainable, widgets
from mwviz_app.state import Opened
from mwviz_app.trainable import Offered, Part

FIRST_ARMS = ("rightmost", "replay", "packed_mask", "sdcc")
"""Arms that a new comparison has: both naive rows, the exact one, the one between them."""
OBJECTIVE_NAMES = {
    "nll": "likelihood of the tokens",
    "policy": "policy gradient on recorded rewards",
}
TRAINED_KEY, WATCHED_KEY = "lab-trained", "lab-watched"
"""Keys of the pickers of rollouts."""
SUGGESTED_KEY = "lab-suggested"
"""Key of what the pickers began with."""
USUAL = Recipe()
"""What the rarer questions start from: the defaults of `mwviz train`."""


def pick() -> Plan | None:
    """What the user wants to run; None while a choice is missing or wrong, which is then said."""
    opened = state.opened()
    there = trainable.offered(
        opened, st.session_state.get(TRAINED_KEY, ()), st.session_state.get(WATCHED_KEY, ())
    )
    for trace, why in there.refused.items():
        if trace in there.needed:
            _refuse(trace, why, there)
    _choose(there, opened)
    left, right = st.columns(2, gap="medium")
    with left:
        chosen = st.multiselect(
            "Rollouts to train on",
            list(there.parts),
            format_func=lambda part: visible(there.parts[part], keep=""),
            help="Of every trace that the app was started with or that was dropped here, the open "
            "one first, and of the demos. One that nothing has read yet is offered whole; choosing "
            "it reads it and offers its rollouts here.",
            key=TRAINED_KEY,
            persist_state="session",
            wrap=True,
        )
        watched = st.multiselect(
            "Watch on the rollouts of",
            list(there.traces),
            format_func=lambda trace: visible(there.traces[trace], keep=""),
            help="Held out, without those that are trained on. Empty: they are watched.",
            key=WATCHED_KEY,
            persist_state="session",
            wrap=True,
        )
        asked = st.multiselect(
            "Arms",
            ["exact", *(method.name for method in METHODS)],
            default=FIRST_ARMS,
            accept_new_options=True,
            wrap=True,
            help="One copy of the model each, trained on the same rollouts in another layout: "
            "rightmost on the last context, replay on the whole history, packed_mask exactly on "
            "what each call saw, sdcc on the last context with a pull to the true ones. exact "
            "takes the cheapest exact layout; type own:FILE for a trainer's own batch.",
        )
        methods = _arms(asked)
    with right:
        recipe, every, model = _recipe(methods or ())
    if not chosen or not asked:
        widgets.empty(f"No {'arm' if chosen else 'rollout'} is chosen.", "Choose at least one.")
        return None
    if methods is None or recipe is None:
        return None
    if there.refused.keys() & {*(part.trace for part in chosen), *watched}:
        widgets.empty("What is chosen cannot be read.", "Mend its file, or take it out.")
        return None
    try:
        read = trainable.read(chosen)
    except TraceError as error:
        widgets.show_error(error, "These rollouts cannot be trained.")
        return None
    if recipe.objective == "policy" and (why := kept.ungraded(read.places)):
        widgets.show_error(TraceError(why), "A policy gradient would learn nothing from these.")
        st.text(f"nll is the objective {OBJECTIVE_NAMES['nll']}.")
        return None
    return Plan(
        files=read.files,
        methods=methods,
        recipe=recipe,
        rollouts=read.rollouts,
        held_out=tuple(dict.fromkeys(str(state.source(trace).path) for trace in watched)),
        watch=every,
        model=model or embedded.EMBEDDED,
        device=state.launch().device or "auto",
    )


class _Begun(NamedTuple):
    """What the pickers of rollouts began with, and what was open then."""

    opened: Opened | None
    is_chosen: bool
    trained: list[Part]
    watched: list[str]


def _choose(there: Offered, opened: Opened | None) -> None:
    """A first choice of rollouts; later what of the last one is offered still, by its new names.

    Where another rollout was opened since and the first choice was left as it was, a new one; but
    not because its file cannot be read for a while.
    """
    begun: _Begun | None = st.session_state.get(SUGGESTED_KEY)
    trained: list[Part] | None = st.session_state.get(TRAINED_KEY)
    watched: list[str] = st.session_state.get(WATCHED_KEY, [])
    now = opened, state.is_chosen()
    left = begun is not None and begun[2:] == (trained, watched) and begun[:2] != now
    left = left and not any(part.trace in there.refused for part in trained or ())
    if trained is None or left:
        trained, watched = trainable.suggested(there)
        st.session_state[SUGGESTED_KEY] = _Begun(*now, trained, watched)
    st.session_state[TRAINED_KEY] = trainable.still(trained, there)
    st.session_state[WATCHED_KEY] = [trace for trace in watched if trace in there.traces]


def _refuse(trace: str, why: str, there: Offered) -> None:
    """Says which trace cannot be read, and why."""
    told = "A demo" if state.source(trace).origin == "demo" else "A trace"
    if trace == there.opened:
        told = "The open trace"
    st.warning(f"{told} cannot be read.", icon=":material/block:")
    st.text(visible(state.in_own_names(why)))


def _arms(asked: Sequence[str]) -> tuple[str, ...] | None:
    """The arms, a trainer's own batches among them; None if one is nothing: says which and why."""
    found, wrong = dict[str, None](), dict[str, str]()
    for name in asked:
        try:
            found |= dict.fromkeys((_own(name),) if name.startswith(OWN) else arms(name))
        except ViewError as error:
            wrong[name] = str(error)
    if not wrong:
        return tuple(found)
    told, it = ("An arm", "it") if len(wrong) == 1 else (f"{len(wrong)} arms", "them")
    st.error(f"{told} cannot be trained; mend {it} or take {it} out.", icon=":material/error:")
    for name, why in wrong.items():
        st.text(visible(f"{name}: {why}"))
    return None


def _own(name: str) -> str:
    """An arm of a trainer's own batch, whose file is there."""
    path = Path(name.removeprefix(OWN))
    if "," in name:
        raise ViewError("a comma parts arms; rename the file of the batch")
    if not path.is_file():
        why = "is a folder" if path.is_dir() else "no such file"
        raise ViewError(f"{why}; {OWN} is followed by the path of a trainer's batch")
    return name


def _recipe(methods: Sequence[str]) -> tuple[Recipe | None, int, str | None]:
    """Recipe, steps between looks, and model."""
    model = widgets.model_picker("lab", state.opened())
    if model is None and embedded.path() is None:
        widgets.empty("The embedded model is not here.", "Run `mwviz doctor --install-model`.")
    objective = st.segmented_control(
        "Objective",
        OBJECTIVES,
        default="nll",
        required=True,
        wrap=True,
        format_func=lambda name: OBJECTIVE_NAMES[name],
    )
    first, second, third = st.columns(3)
    steps = first.number_input("Steps", 1, 100_000, 20)
    every = second.number_input("Look every", 0, 100_000, 5, help="Steps; 0: first and last only.")
    tokens = third.number_input("Batch (tokens)", 1, 10**7, 2048, step=512)
    rate = first.number_input("Learning rate", 1e-9, 1.0, 1e-4, format="%g", step=1e-5)
    seed = second.number_input("Seed", 0, 2**31, 0)
    rank = third.number_input("LoRA rank", 0, 1024, 8, help="0 trains all weights.")
    policy = objective == "policy"
    with st.expander("More: clipping, SDCC, warm-up, decay"):
        rarer = _rarer(policy=policy, pulled=any(arm in STUDENTS for arm in methods))
    try:
        recipe = Recipe(
            steps=int(steps),
            learning_rate=float(rate),
            batch_tokens=int(tokens),
            seed=int(seed),
            objective="policy" if policy else "nll",
            lora_rank=int(rank) or None,
            **rarer,
        )
    except ViewError as error:
        widgets.show_error(error)
        return None, int(every), model
    return recipe, int(every), model


def _rarer(*, policy: bool, pulled: bool) -> dict[str, Any]:
    """Fields of a recipe that most comparisons leave alone.

    Args:
        policy: whether importance ratios matter.
        pulled: whether an arm has SDCC's KL. What does not matter is shown, and stays as usual.
    """
    first, second, third = st.columns(3)
    only = "For the policy gradient: tokens whose importance ratio is beyond it give no gradient "
    low = first.number_input(
        "Lowest ratio",
        0.0,
        1.0,
        USUAL.clip[0],
        0.05,
        disabled=not policy,
        help=f"{only}against a negative advantage.",
    )
    high = second.number_input(
        "Highest ratio",
        1.0,
        1e6,
        USUAL.clip[1],
        0.05,
        disabled=not policy,
        help=f"{only}with a positive advantage.",
    )
    most = third.number_input(
        "Cut ratios at",
        1e-6,
        1e6,
        USUAL.most,
        0.5,
        disabled=not policy,
        placeholder="never",
        help="Larger ones count as this one.",
    )
    strength = first.number_input(
        "SDCC strength",
        0.0,
        1e6,
        USUAL.strength,
        0.05,
        disabled=not pulled,
        help="Factor of the KL of sdcc and sdcc_replay once it has risen.",
    )
    rise = second.number_input(
        "SDCC rise",
        0.0,
        1.0,
        USUAL.rise,
        0.05,
        disabled=not pulled,
        help="Share of the steps over which that factor rises from 0.",
    )
    warmup = third.number_input(
        "Warm-up steps", 0, 100_000, USUAL.warmup_steps, help="The learning rate rises over these."
    )
    decay = first.number_input("Weight decay", 0.0, 10.0, USUAL.weight_decay, 0.01)
    cut = second.number_input(
        "Gradient clip", 0.0, 1e6, USUAL.grad_clip or 0.0, 0.5, help="Largest norm; 0: none."
    )
    return {
        "clip": (float(low), float(high)) if policy else USUAL.clip,
        "most": None if most is None or not policy else float(most),
        "strength": float(strength) if pulled else USUAL.strength,
        "rise": float(rise) if pulled else USUAL.rise,
        "warmup_steps": int(warmup),
        "weight_decay": float(decay),
        "grad_clip": float(cut) or None,
    }
