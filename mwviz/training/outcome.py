"""What a comparison comes to, in sentences: which arms keep to the rollout, and which ends best."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from mwviz.wording import counted, digits, listed

if TYPE_CHECKING:
    import pandas as pd

LEAST = 1e-5
"""Nats below which a mean drift in float32 is none, whatever the measured floor."""
NOISY = 3.0
"""Floors up to which a drift is noise."""
AMONG = {"drift": "token", "drift_diverging": "diverging token"}
"""Mean drifts, and what each is a mean over."""


def outcome(watched: pd.DataFrame) -> list[str]:
    """What the arms of a run come to at the last look that all of them had.

    An arm that was not looked at after a step, as it failed or has not begun, is left out.

    Args:
        watched: the table `watch`.

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
    return [_kept(last), _ends(last, start, int(step))]


def _noise(last: pd.DataFrame) -> float:
    """Nats up to which a mean drift is noise."""
    known = last["floor"].dropna()
    return max(NOISY * float(known.max()), LEAST) if len(known) else LEAST


def _kept(last: pd.DataFrame) -> str:
    """Which arms train on what was sampled; a mean alone could hide the few tokens that diverge."""
    noise = _noise(last)
    drifts = last.reindex(columns=list(AMONG)).astype(float).sort_values("drift")
    looked = [(str(arm), row) for arm, row in drifts.iterrows()]
    unknown = [arm for arm, row in looked if isnan(row["drift"])]
    strays = {arm: _strays(row, noise) for arm, row in looked if arm not in unknown}
    exact = sorted(arm for arm, by in strays.items() if by is None)
    off = [f"{arm} ({by})" for arm, by in strays.items() if by is not None]
    told = []
    if exact and not off and not unknown:
        told.append("Every arm trains on what was sampled: none drifts by more than noise.")
    elif exact:
        told.append(f"Trained on what was sampled: {listed(exact)}.")
    if off:
        told.append(f"Trained on other contexts than the agent had: {listed(off)}.")
    if unknown:
        told.append(f"Not known of {listed(unknown)}: no drift was measured.")
    return " ".join(told)


def _strays(row: pd.Series[float], noise: float) -> str | None:
    """How far an arm drifts, over all trained tokens or over those that diverge; None for noise."""
    for name, token in AMONG.items():
        if row[name] > noise:
            return f"drift {digits(row[name])} nats a {token}"
    return None


def _ends(last: pd.DataFrame, start: pd.DataFrame, step: int) -> str:
    """Which arm is best where the agent will run."""
    losses = last["loss_true"].dropna().sort_values()
    if not len(losses):
        return "No loss in the true contexts is known."
    noise = _noise(last)
    best = [str(arm) for arm, loss in losses.items() if loss - losses.iloc[0] <= noise]
    rest = [f"{arm} {digits(loss, 3)}" for arm, loss in losses.items() if str(arm) not in best]
    before = start["loss_true"].dropna()
    was = f", {digits(float(before.iloc[0]), 3)} before" if len(before) else ""
    behind = f"; {listed(rest)}" if rest else ""
    verb = "ends" if len(best) == 1 else "end"
    return (
        f"In the true contexts {listed(best)} {verb} lowest, at {digits(losses.iloc[0], 3)} nats a "
        f"token{was}{behind}. One seed, {counted(step, 'step')}: another may order close arms "
        "otherwise."
    )
