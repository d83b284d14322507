"""The traces that pictures of the app are taken of: large, hostile, unknown, many, none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from mwviz.demos import DEMOS, write_stress
from mwviz.stress import in_words, stress_log

HOSTILE = (
    "<img src=x onerror=alert(1)> <script>alert(2)</script> [click](javascript:alert(3)) "
    "\x1b[31m red \u202e desrever \u2066 :red[x] $x^2$ 検索 👩‍💻 "
)


def _hostile(path: Path) -> None:
    """Text that a careless page would obey, before, across and after an eviction."""
    user, tool, more = (f"{name} {HOSTILE}" for name in ("Question", "Result", "More"))
    note = f"Summary: {HOSTILE}"
    prompts = ([user], [user, tool * 3], [user, note], [user, note, more])
    with path.open("w") as file:
        for call, prompt in enumerate(prompts):
            messages = [{"role": "user", "content": content} for content in prompt]
            said = [{"role": "assistant", "content": f"Answer {call} {HOSTILE}"}]
            file.write(json.dumps({"messages": messages, "completion": said}) + "\n")


def _unknown(path: Path) -> None:
    path.write_text('{"weather": "fair"}\n{"weather": "rain"}\n')


def _folder(path: Path) -> None:
    """A folder of rollouts: the demos, smaller and hostile ones, and a broken one."""
    path.mkdir(exist_ok=True)
    for demo in DEMOS:
        (path / demo.path.name).write_bytes(demo.path.read_bytes())
    _hostile(path / "hostile.jsonl")
    _unknown(path / "weather.jsonl")
    for seed in range(6):
        lines = in_words(stress_log("15k", seed))
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (path / f"search-{seed}.jsonl").write_text(text)


def _nothing(path: Path) -> None:
    """A folder without a trace."""
    path.mkdir(exist_ok=True)


TRACES: dict[str, Callable[[Path], None]] = {
    "stress.jsonl": write_stress,
    "hostile.jsonl": _hostile,
    "weather.jsonl": _unknown,
    "runs": _folder,
    "nothing": _nothing,
}
"""What writes each trace; other names start the app without one."""
