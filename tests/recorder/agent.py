"""An agent that compacts: the same loop against any client, and its own account of its calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from mwviz.trace import Trace, load

Message = dict[str, Any]
Ask = Callable[[list[Message]], str]

SYSTEM = "You tend a harbour log."
TASK = "Which boats came in today?"
STEPS = 5
ROOM = 6
"""Messages a context may hold before it is summarised."""


class Agent:
    """Asks, observes, and replaces all but the task by a summary when the context is full."""

    def __init__(self, ask: Ask, *, name: str = "a") -> None:
        self._ask = ask
        self._name = name
        self.account: list[Message] = []
        """Its calls as the generic call log writes them."""

    def run(self, steps: int = STEPS) -> None:
        head = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
        context = list(head)
        for step in range(steps):
            if len(context) >= ROOM:
                order = {"role": "user", "content": f"At step {step}, summarise what you know."}
                summary = self._asked([*context, order])
                context = [*head, {"role": "user", "content": f"So far: {summary}"}]
            answer = self._asked(context)
            context.append({"role": "assistant", "content": answer})
            seen = f"{self._name} sees boat {step} at pier {step * 3}"
            context.append({"role": "user", "content": seen})

    def _asked(self, messages: list[Message]) -> str:
        answer = self._ask(messages)
        told = {"role": "assistant", "content": answer}
        self.account.append({"messages": list(messages), "completion": told})
        return answer


def junctions(trace: Trace) -> list[tuple[str, int, int]]:
    """Kind, evicted and inserted tokens of every junction of the only rollout."""
    (analysis,) = trace.analyses
    return [(j.kind, len(j.evicted), len(j.inserted)) for j in analysis.junction_list]


def account_of(agent: Agent, folder: Any) -> Trace:
    """The agent's own account, opened as a trace."""
    path = folder / "account.jsonl"
    path.write_text("".join(json.dumps(call) + "\n" for call in agent.account))
    return load(path)
