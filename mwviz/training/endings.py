"""Why an arm ended early, and what helps where going on does not. No torch here."""

from __future__ import annotations

from mwviz.training.results import DIVERGED, NOT_FINITE, NOTHING, ArmStatus

HELP = {
    DIVERGED: "lower the learning rate",
    NOT_FINITE: "lower the learning rate, or take a model of a wider dtype",
    NOTHING: "choose another layout, or other rollouts",
}
"""What to change, by what an arm's message says where the same plan would end it the same way."""


def can_go_on(arm: ArmStatus) -> bool:
    """Whether an arm is not done and may come further when it is resumed."""
    return arm.state != "done" and not (arm.state == "failed" and help_for(arm.message))


def help_for(message: str) -> str:
    """What to change so that an arm does not end as it did; "" if going on may help."""
    return next((what for said, what in HELP.items() if said in message), "")
