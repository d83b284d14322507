from __future__ import annotations

import json
from pathlib import Path

import pytest

from mwviz.cli import main
from mwviz.errors import TraceError
from mwviz.formats import read
from mwviz.formats.mapped import parse_mapping

STEPS = [
    {"ep": 1, "step": {"in": [1, 2], "out": [[3], [4, 5]]}, "lp": None},
    {"ep": 1, "step": {"in": [1, 2, 4, 5, 6], "out": [[7], [8]]}, "temperature": 0.5},
]
TEXT = "\n".join(map(json.dumps, STEPS)).encode()
GOOD = "prompt_ids=step.in, completion_ids=step.out.1 ,rollout=ep"


def test_fields_are_found_where_the_user_says() -> None:
    reading = read(TEXT, mapping=parse_mapping(GOOD))
    (rollout,) = reading.rollouts
    assert (reading.format, rollout.id, reading.damage) == ("calls", "1", ())
    first, second = rollout.calls
    assert first.prompt_ids is not None
    assert first.completion_ids is not None
    assert (first.prompt_ids.tolist(), first.completion_ids.tolist()) == ([1, 2], [4, 5])
    assert second.temperature == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "prompt_ids=step.ids",
            r"--map prompt_ids='step.ids' leads nowhere: step has the keys in, out",
        ),
        ("prompt_ids=x", "the top has the keys ep, step, lp"),
        ("prompt_ids=step.out.7", "step.out has the numbers 0 to 1"),
        ("prompt_ids=ep.x", "ep has no keys: it is 1"),
        ("prompt=step.in", "no field 'prompt', expected one of rollout, call, lineage, prompt_ids"),
        ("prompt_ids", "'prompt_ids', expected FIELD=PATH"),
    ],
)
def test_a_wrong_path_lists_the_keys_that_exist(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(TEXT, mapping=parse_mapping(text))


def test_a_record_without_the_path_is_reported() -> None:
    reading = read(TEXT + b'\n{"ep":1}', mapping=parse_mapping(GOOD))
    assert [(d.line, d.what) for d in reading.damage] == [(3, "no prompt at the given path")]


def test_the_command_line_takes_a_mapping(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_bytes(TEXT)
    assert main(["inspect", str(path), "--map", GOOD]) == 0
    assert "2 calls" in capsys.readouterr().out
    assert main(["convert", str(path), str(tmp_path / "out.jsonl"), "--map", GOOD]) == 0
    assert len(read(tmp_path / "out.jsonl").rollouts[0].calls) == 2
    capsys.readouterr()
    assert main(["check", str(path), "--map", "prompt_ids=nowhere"]) == 2
    assert "the keys ep, step, lp" in capsys.readouterr().err
