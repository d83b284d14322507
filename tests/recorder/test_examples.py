"""The recording examples run, against a provider of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mwviz.trace import load
from tests.recorder.conftest import soon
from tests.recorder.upstream import reply_to, upstream

EXAMPLES = Path(__file__).parents[2] / "examples" / "recording"
ASKED = "Which boats came in today?"


def run(script: str, *arguments: str, url: str = "") -> str:
    told = {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
    }
    command = [sys.executable, str(EXAMPLES / script), *arguments]
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **told}, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    "script",
    ["openai_client.py", "anthropic_client.py", "litellm_callback.py", "langchain_callback.py"],
)
def test_an_example_records_its_call(script: str, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    with upstream() as provider:
        printed = run(script, str(out), "ok", url=provider.url)
    soon(lambda: out.read_bytes().endswith(b"\n"))
    (rollout,) = load(out).rollouts
    (call,) = rollout.calls
    assert rollout.id == "task-17"
    assert call.prompt is not None
    assert call.completion is not None
    assert (call.prompt[-1].text, call.completion[0].text) == (ASKED, reply_to(ASKED))
    assert reply_to(ASKED) in printed


def test_a_trainers_rows_need_no_file() -> None:
    assert run("trainer_rows.py").splitlines() == [
        "['rewrite']",
        "{'rightmost': 0.3333333333333333, 'packed_mask': 1.0}",
    ]
