"""What a comparison comes to, in sentences: which arms keep to the rollout, and which ends best."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mwviz.scorer import EXACT
from mwviz.training.recipe import OWN
from mwviz.views import exact_methods
from mwviz.wording import counted, digits, listed

if TYPE_CHECKING:
    import pandas as pd

    from mwviz.training.plan import Plan


def outcome(watched: pd.DataFrame, plan: Plan) -> list[str]:
    """What the arms of a run come to at the last look that all of them had.

    An arm that was not looked at after a step, as it failed or has not begun, is left out.

    Args:
        watched: the table `watch`.
        plan: of the run. Under the objective `policy` arms are not ordered by the loss of the
            recorded samples, which it raises on purpose where the advantage is negative.

    Returns:
        Plain sentences; none before two arms have been looked at after the same step.
    """
    if not len(watched):
        return []
    looks = {str(arm): set(rows["step"]) - {0} for arm, rows in watched.groupby("arm", sort=False)}
    begun = [steps for steps in looks.values() if steps]
    if len(begun) < 2 or not (shared := set.intersection(*begun)):  # noqa: PLR2004
        return []
    step = max(shared)
    last = watched[watched["step"] == step].set_index("arm")
    start = watched[watched["step"] == 0].set_index("arm")
    ends = [_ends(last, start, int(step))] if plan.recipe.objective == "nll" else []
    return [_kept(last, held_out=bool(plan.held_out)), *ends]


def _kept(last: pd.DataFrame, *, held_out: bool) -> str:
    """Which arms train on what was sampled: those none of whose tokens diverges, however little.

    Looks see the watched rollouts alone: of a layout that is exact only where nothing was evicted
    they say nothing about others. A trainer's own batch lays out the rollouts that it was made of:
    of it they say nothing where others are held out.
    """
    drifts = last[["drift", "drift_diverging"]].astype(float).sort_values("drift_diverging")
    own = [arm for arm in drifts.index if held_out and str(arm).startswith(OWN)]
    unknown = [arm for arm in drifts.index[drifts["drift"].isna()] if arm not in own]
    known = drifts.drop([*own, *unknown])["drift_diverging"]
    kept = sorted(map(str, known.index[known.isna()]))
    exact = [arm for arm in kept if arm == EXACT or arm in exact_methods("re_prefill")]
    here = [arm for arm in kept if arm not in exact]
    off = [
        f"{arm} (drift {digits(drift)} nats a diverging token)"
        for arm, drift in known.dropna().items()
    ]
    if len(exact) == len(drifts):
        return "Every arm trains on what was sampled: no token's context differs from the true one."
    told = [f"Trained on what was sampled: {listed(exact)}."] if exact else []
    if here:
        told.append(
            f"No context differs under {listed(here)} in the watched rollouts, which says nothing "
            "of others."
        )
    if off:
        told.append(f"Trained on other contexts than the agent had: {listed(off)}.")
    if unknown:
        told.append(f"Not known of {listed([*map(str, unknown)])}: no drift was measured.")
    if own:
        told.append(
            f"Not known of {listed([*map(str, own)])}: a batch lays out the rollouts that it was "
            "made of, and the watched ones may be others."
        )
    return " ".join(told)


def _ends(last: pd.DataFrame, start: pd.DataFrame, step: int) -> str:
    """Which arm is best where the agent will run."""
    losses = last["loss_true"].dropna().sort_values()
    if not len(losses):
        return "No loss in the true contexts is known."
    lowest = digits(losses.iloc[0], 3)
    floor = last["floor"].astype(float).max()
    near = losses.iloc[0] + (0.0 if math.isnan(floor) else floor)
    best = [str(a) for a, loss in losses.items() if loss <= near or digits(loss, 3) == lowest]
    rest = [f"{arm} {digits(loss, 3)}" for arm, loss in losses.items() if str(arm) not in best]
    before = start["loss_true"].dropna()
    was = f", {digits(float(before.iloc[0]), 3)} before" if len(before) else ""
    behind = f"; {listed(rest)}" if rest else ""
    verb = "ends" if len(best) == 1 else "end"
    alike = losses.iloc[0] < losses[best].max() <= near
    apart = f", no further apart than the floor of {digits(floor, 1)}" if alike else ""
    return (
        f"In the true contexts {listed(best)} {verb} lowest, at {lowest} nats a "
        f"token{apart}{was}{behind}. One seed, {counted(step, 'step')}: another may order close "
        "arms otherwise."
    )
