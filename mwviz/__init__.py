"""Visual debugger for LLM agents trained under context compression.

Start with `mwviz.load("rollout.jsonl").analyses[0]`: its `tree`, `junctions`, `view(...)`,
`pairs(...)`, `score(...)` and `compare(...)`. `record(client, ...)` writes rollouts down,
`from_token_rows(...)` takes a trainer's.
"""

from __future__ import annotations

from mwviz.analysis import Analysis, analyse
from mwviz.errors import ModelError, MwvizError, SetupError, TraceError, ViewError
from mwviz.recorder.client import record
from mwviz.rollout import Call, Message, Rollout
from mwviz.token_rows import from_token_rows
from mwviz.trace import Trace, load

__version__ = "0.1.0"

__all__ = [
    "Analysis",
    "Call",
    "Message",
    "ModelError",
    "MwvizError",
    "Rollout",
    "SetupError",
    "Trace",
    "TraceError",
    "ViewError",
    "__version__",
    "analyse",
    "from_token_rows",
    "load",
    "record",
]
