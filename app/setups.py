"""The setups that scored a rollout, in words that tell those of one name apart."""

from __future__ import annotations

from mwviz import store
from mwviz_app import checkpoints
from mwviz_app.scored import Scored, Setup, name_of, short

EARLIER = "earlier weights"
"""What is said of scores of a checkpoint that was trained on since."""


def told(setup: Setup, found: Scored) -> str:
    """A setup as pickers show it, which cut off what is long: what matters most comes first.

    Args:
        setup: one of `found`.
        found: what scored the rollout, as `state.scored` gives it.
    """
    words = (short(name_of(setup.model)), setup.dtype, *_differs(setup, found))
    return " · ".join((*earlier(setup, found), *words))


def apart(setup: Setup, found: Scored) -> tuple[str, ...]:
    """What tells a setup from those of the same name; and whether its weights are earlier ones."""
    return (*_differs(setup, found), *earlier(setup, found))


def earlier(setup: Setup, found: Scored) -> tuple[str, ...]:
    """What is said of a setup all of whose scores are older than its checkpoint as it is now."""
    trained = checkpoints.written(name_of(setup.model))
    if trained is None:
        return ()
    files = map(store.path_of, found.get(setup, {}).values())
    kept = [path.stat().st_mtime_ns for path in files if path.exists()]
    return (EARLIER,) if kept and max(kept) < trained else ()


def _differs(setup: Setup, found: Scored) -> tuple[str, ...]:
    """Device and revision where another setup is called the same."""
    others = [one for one in found if one != setup and name_of(one.model) == name_of(setup.model)]
    return (setup.device, setup.model.partition("@")[2]) if others else ()
