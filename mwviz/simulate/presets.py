"""The harness presets: which policy each one is, with which defaults, and what it should show.

Rules and defaults that no source gives are our choice, and the documentation says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from mwviz.errors import MwvizError
from mwviz.simulate.archive import Memex, MemexPaper
from mwviz.simulate.cache import CacheWindow
from mwviz.simulate.clearing import Append, Clearing, ThinkingStrip
from mwviz.simulate.compaction import Codex, Compaction
from mwviz.simulate.context import Policy
from mwviz.simulate.folding import AgentFold, ContextFolding, Fold, MemAgent
from mwviz.simulate.popping import Popping
from mwviz.simulate.truncation import QwenAgent, SlidingWindow

KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    tuple: "whole numbers with commas between",
}
"""What a user writes for a value of each type."""


class Option(NamedTuple):
    """Something of a preset that a user may set."""

    name: str
    default: Any
    """int, float, bool, str or a tuple of int; a value given must be of that type."""
    about: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preset:
    """One harness's way to keep its context small."""

    name: str
    rule: str
    """What it does to the context."""
    policy: Policy | CacheWindow
    """The rule with its defaults."""
    kinds: tuple[str, ...]
    """Junction kinds it makes."""

    @property
    def options(self) -> tuple[Option, ...]:
        """What a user may set, with the preset's defaults."""
        return tuple(
            Option(f.name, getattr(self.policy, f.name), f.metadata["about"], f.metadata["choices"])
            for f in fields(self.policy)  # type: ignore[arg-type]  # every policy is a dataclass
            if f.metadata
        )

    def tuned(self, options: Mapping[str, Any]) -> Policy | CacheWindow:
        """The policy with a user's options.

        Raises:
            MwvizError: an option or value that the preset does not know; lists what it knows.
        """
        known = {option.name: option for option in self.options}
        for name, value in options.items():
            if name not in known:
                valid = ", ".join(known) or "none"
                raise MwvizError(f"preset {self.name} has no option {name!r}; it has: {valid}")
            _check(self.name, known[name], value)
        tuned: Policy | CacheWindow = replace(self.policy, **options)  # type: ignore[type-var]
        return tuned

    def parsed(self, settings: Iterable[str]) -> dict[str, Any]:
        """Options written as `name=value`; a tuple's numbers are separated by commas.

        Raises:
            MwvizError: a setting that is none, or a value of the wrong type.
        """
        defaults = {option.name: option.default for option in self.options}
        options: dict[str, Any] = {}
        for setting in settings:
            name, sign, text = setting.partition("=")
            if not sign:
                raise MwvizError(f"{setting!r} is no setting, expected NAME=VALUE")
            options[name] = _parsed(text, defaults.get(name, ""))
        return options


def _parsed(text: str, default: Any) -> Any:
    """A text as a value of the default's type; the text itself if it is none."""
    try:
        match default:
            case bool():
                return {"true": True, "false": False}.get(text.lower(), text)
            case tuple():
                return tuple(int(number) for number in text.split(",") if number)
            case int() | float():
                return type(default)(text)
    except ValueError:
        return text
    return text


def _check(preset: str, option: Option, value: Any) -> None:
    wanted: tuple[type, ...] = (type(option.default),)
    if wanted == (float,):
        wanted = (float, int)
    if not isinstance(value, wanted) or (isinstance(value, bool) and bool not in wanted):
        raise MwvizError(f"{preset}: {option.name} is {value!r}, expected {KINDS[wanted[0]]}")
    if option.choices and value not in option.choices:
        valid = ", ".join(option.choices)
        raise MwvizError(f"{preset}: {option.name} is {value!r}, expected one of {valid}")
    numbers = value if isinstance(value, tuple) else (value,)
    if any(isinstance(number, int | float) and not 0 <= number < math.inf for number in numbers):
        raise MwvizError(f"{preset}: {option.name} is {value!r}, expected a number from 0 on")


PRESETS: tuple[Preset, ...] = (
    Preset("none", "Control: nothing is ever removed.", Append(), ()),
    Preset(
        "claude-code-micro",
        "Micro-compaction: all but the newest tool results become a stub in place.",
        Clearing(keep=3),
        ("placeholder",),
    ),
    Preset(
        "claude-code-full",
        "Near the window limit everything behind the system messages becomes a user message "
        "with a summary.",
        Compaction(),
        ("summary",),
    ),
    Preset(
        "claude-code-tail",
        "As claude-code-full, with the newest messages kept word for word behind the summary.",
        Compaction(tail=10_000),
        ("summary_tail", "summary"),
    ),
    Preset(
        "opencode-prune",
        "Tool results in front of the newest turns and of a protected amount become a stub, once "
        "enough would go.",
        Clearing(turns=2, protect=40_000, at_least=20_000),
        ("placeholder",),
    ),
    Preset(
        "opencode-compaction",
        "At the window limit everything behind the system messages becomes an assistant message "
        "with a summary.",
        Compaction(at=1.0, role="assistant"),
        ("summary",),
    ),
    Preset(
        "opencode-compaction-tail",
        "As opencode-compaction, with a tail of at most a quarter of the window behind the "
        "summary.",
        Compaction(at=1.0, tail=15_000, tail_share=0.25, role="assistant"),
        ("summary_tail", "summary"),
    ),
    Preset(
        "qwen-agent",
        "At every call anew: whole oldest turns go, then tool results shrink to one word, then "
        "steps go; text can come back.",
        QwenAgent(),
        ("drop", "placeholder", "restore"),
    ),
    Preset(
        "codex",
        "Near the window limit the person's messages stay word for word, and a summary of the rest "
        "follows them.",
        Codex(),
        ("summary", "summary_tail"),
    ),
    Preset(
        "tc-rag",
        "Original: the newest observation is taken back with its action, and a note to rethink "
        "follows.",
        Popping(),
        ("rewind",),
    ),
    Preset(
        "tc-rag-paper",
        "Variant of arXiv 2609.00865: the oldest tool result is popped; all behind it stays.",
        Popping(order="fifo"),
        ("drop",),
    ),
    Preset(
        "tc-rag-largest",
        "As tc-rag-paper, but the largest tool result is popped.",
        Popping(order="largest"),
        ("drop",),
    ),
    Preset(
        "agentfold",
        "Original: every step but the latest is folded into a summary of its own, and the "
        "summaries are merged now and then.",
        AgentFold(),
        ("fold",),
    ),
    Preset(
        "agentfold-paper",
        "Variant of arXiv 2609.00865: all but the latest step is folded into one summary once the "
        "prompt is too long.",
        Fold(),
        ("fold",),
    ),
    Preset(
        "memexrl",
        "Original: a long context becomes system, task and an index of what was archived; a block "
        "read back is appended.",
        Memex(),
        ("summary",),
    ),
    Preset(
        "memexrl-paper",
        "Variant of arXiv 2609.00865: old tool results are put aside, read back at the end, and "
        "all restored before the answer.",
        MemexPaper(),
        ("placeholder", "restore"),
    ),
    Preset(
        "thinking-strip",
        "Reasoning in front of the person's latest message disappears, as in many chat templates.",
        ThinkingStrip(),
        ("template_strip",),
    ),
    Preset(
        "sliding-window",
        "Only the system messages and the newest messages stay; encoded anew at every call.",
        SlidingWindow(),
        ("drop",),
    ),
    Preset(
        "resum",
        "An external summariser: near the window limit system, task and a summary stay.",
        Compaction(window=64_000, keeps_task=True, writer="summariser"),
        ("summary",),
    ),
    Preset(
        "mem1",
        "Everything is replaced at every step: how it opened, one state, the latest step.",
        Fold(over=0, kind="summary"),
        ("summary_tail",),
    ),
    Preset(
        "memagent",
        "A memory is overwritten at every call: how it opened, the memory, the newest input.",
        MemAgent(),
        ("summary",),
    ),
    Preset(
        "context-folding",
        "Some calls run on a branch, of which one message returns to the trunk.",
        ContextFolding(),
        ("fold",),
    ),
    Preset(
        "streaming-llm",
        "Cache level: the first tokens and the newest stay at their original positions.",
        CacheWindow(),
        ("drop",),
    ),
    Preset(
        "window",
        "Cache level: only the newest tokens stay, at their original positions.",
        CacheWindow(sinks=0, size=1_024),
        ("drop",),
    ),
)
"""All presets, in the order they are listed."""


def preset_named(name: str) -> Preset:
    """The preset of that name.

    Raises:
        MwvizError: there is none; lists those there are.
    """
    found = next((preset for preset in PRESETS if preset.name == name), None)
    if found is None:
        valid = ", ".join(preset.name for preset in PRESETS)
        raise MwvizError(f"no preset {name!r}; there are: {valid}")
    return found
