"""The harnesses that the agent can live in: presets of the simulator, tuned to small contexts."""

from __future__ import annotations

from typing import Any, NamedTuple

from mwviz.errors import MwvizError
from mwviz.simulate.cache import CacheWindow
from mwviz.simulate.context import Policy
from mwviz.simulate.presets import PRESETS, preset_named


class Harness(NamedTuple):
    """A preset with its options."""

    name: str
    preset: str
    options: dict[str, Any]

    @property
    def policy(self) -> Policy:
        """What it does before each call.

        Raises:
            MwvizError: it works on the cache and not on messages.
        """
        policy = preset_named(self.preset).tuned(self.options)
        if isinstance(policy, CacheWindow):
            raise MwvizError(
                f"preset {self.preset} edits the cache; a live harness needs one of messages"
            )
        return policy

    def tuned(self, **options: Any) -> Harness:
        """The same with other options."""
        return self._replace(options=self.options | options)


HARNESSES = (
    Harness("none", "none", {}),
    Harness("prune", "claude-code-micro", {"keep": 1}),
    Harness("summary", "claude-code-tail", {"window": 330, "at": 1.0, "tail": 220}),
    Harness("fold", "agentfold-paper", {"over": 330}),
    Harness("window", "sliding-window", {"messages": 7}),
)
"""One tool result is about 100 tokens and one action about 30, so that these act at each hop."""


def harness_named(name: str) -> Harness:
    """One of `HARNESSES`, or any preset of the simulator with its own defaults.

    Raises:
        MwvizError: there is none of that name.
    """
    presets = {preset.name: Harness(preset.name, preset.name, {}) for preset in PRESETS}
    own = {harness.name: harness for harness in HARNESSES}
    found = (presets | own).get(name)
    if found is None:
        told = f"{', '.join(own)}; or a preset: {', '.join(presets)}"
        raise MwvizError(f"no harness {name!r}; there are: {told}")
    return found
