"""Decoded training rows of verl, AReaL and TRL: one prompt and one response as text.

verl's `rollout_data_dir/<step>.jsonl` (`_dump_generations` of its ray_trainer, in several copies):
`input`, `output`, `score`, `step`, in most versions `gts`, and what the reward function adds.
AReaL's `dump_to_file` (areal/infra/workflow_executor.py, commit 3c1f573): `task_id`, `sample_idx`,
`seqlen`, `prompt_len`, `head_version`, `tail_version`, `reward`, `prompt`, `completion`. TRL's
`completions_<step>.parquet`, written as JSON lines: `step`, `prompt`, `completion`, rewards,
`advantage`. Such a row is the trainer's view: one call, however many there were; replies and tool
output in the response are not told apart, so no tree comes out of it. Rows of one rollout that was
split do not name each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, label, score, shown
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.rollout import Rollout

VERL = frozenset({"input", "output", "score", "step"})
AREAL = frozenset({"prompt", "completion", "seqlen", "prompt_len"})
TRL = frozenset({"prompt", "completion", "step", "advantage"})
TEXTS = (("input", "output"), ("prompt", "completion"))
NAMES = ("request_id", "uid", "task_id")
SCORES = ("score", "reward")
VERSIONS = ("head_version", "tail_version")
DECODED = (
    "a training row as text: the calls in its response and what tools returned there are not told "
    "apart, special tokens may be missing"
)


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a row of one of the dumps."""
    return any(_is_row(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout of one call a row."""
    return gather(records, _rows)


def _is_row(value: Json) -> bool:
    return isinstance(value, dict) and any(value.keys() >= keys for keys in (VERL, AREAL, TRL))


def _rows(record: Record, pool: Pool) -> Iterator[Row]:
    value = record.value
    if not _is_row(value) or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a training row with its texts")
    asked, answered = next(pair for pair in TEXTS if value.keys() >= set(pair))
    prompt = value[asked]
    scores = (score(value, key) for key in SCORES)
    reward = next((found for found in scores if found is not None), None)
    generic: Object = {
        "lineage": "main",
        "messages": [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt,
        "completion": value[answered],
        "weights": ", ".join(_versions(value)) or None,
    }
    call = replace(read_generic(generic, record.line, pool), content="unknown")
    yield Row(_name(value, record.line), call, (DECODED,), reward)


def _name(value: Object, line: int) -> str:
    """Its own name, if it has one; rows of one name are samples, so the line tells them apart."""
    given = next((found for key in NAMES if (found := label(value, key))), None)
    step = label(value, "step")
    parts = [*([given] if given else []), *([f"step {step}"] if step else []), f"line {line}"]
    return ", ".join(parts)


def _versions(value: Object) -> list[str]:
    return list(dict.fromkeys(v for key in VERSIONS if (v := label(value, key))))
