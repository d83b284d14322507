"""The requests that rLLM's model gateway stored: a database of them, and their chains."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mwviz.errors import TraceError
from mwviz.formats import Reading, read
from tests.formats.test_call_formats import FIXTURES

TRACES = [
    json.loads(line)
    for line in (FIXTURES / "rllm-gateway" / "traces.jsonl").read_text().splitlines()
]


def log(*records: dict[str, Any]) -> Reading:
    return read("\n".join(map(json.dumps, records)).encode())


def ids(reading: Reading) -> list[list[int] | None]:
    return [
        None if call.prompt_ids is None else call.prompt_ids.tolist()
        for rollout in reading.rollouts
        for call in rollout.calls
    ]


def database(path: Path, *, run: str | None = None) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE traces (trace_id TEXT PRIMARY KEY, data TEXT, created_at REAL)")
        column = "" if run is None else ", run_id TEXT"
        made.execute(f"CREATE TABLE trace_sessions (trace_id TEXT, session_id TEXT{column})")
        made.execute("CREATE TABLE runs (run_id TEXT, metadata TEXT)")
        for at, trace in enumerate(TRACES):
            row = (trace["trace_id"], json.dumps(trace), float(at))
            made.execute("INSERT INTO traces VALUES (?, ?, ?)", row)
            named = (trace["trace_id"], trace["session_id"], *([] if run is None else [run]))
            made.execute(f"INSERT INTO trace_sessions VALUES ({','.join('?' * len(named))})", named)
        made.commit()
    return path


@pytest.mark.parametrize("run", [None, "", "run-1"])
def test_a_database_gives_what_its_records_give(run: str | None, tmp_path: Path) -> None:
    path = database(tmp_path / "gateway_traces.db", run=run)
    before = path.read_bytes()
    found, expected = read(path), log(*TRACES)
    assert found.format == "rllm-gateway"
    assert ids(found) == ids(expected)
    (rollout,) = found.rollouts
    assert rollout.id == ("run-1/garden:0" if run else "garden:0")
    assert [call.weights for call in rollout.calls] == ["3", "3", "4"]
    assert [call.usage.prompt for call in rollout.calls if call.usage] == [10, 15, 12]
    assert found.damage == ()
    assert path.read_bytes() == before


def test_chains_are_followed_in_any_order_and_through_several_links() -> None:
    first, second, third = TRACES
    link = {**third, "prompt_token_ids": [], "parent_trace_id": "tr-2"}
    link["prompt_delta_token_ids"] = [70]
    assert ids(log(link, second, first))[-1] == [
        *first["prompt_token_ids"],
        *(40, 41, 50, 51, 7, 42, 43, 70),
    ]


def test_a_broken_chain_keeps_the_messages_and_is_said() -> None:
    _, second, third = TRACES
    reading = log(second, third)
    (rollout,) = reading.rollouts
    assert ids(reading)[0] is None
    assert [m.role for m in rollout.calls[0].prompt or ()] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    assert any("adds to a request that is not in the file" in text for text in reading.warnings)
    circle = {**second, "parent_trace_id": "tr-2"}
    assert ids(log(circle))[0] is None


def test_uneven_logprobs_are_not_used_and_repeated_traces_are_reported() -> None:
    first = {**TRACES[0], "logprobs": [-0.5]}
    reading = log(first, first)
    (call,) = reading.rollouts[0].calls
    assert call.logprobs is None
    assert any("not as many log-probabilities" in text for text in reading.warnings)
    assert [damage.what for damage in reading.damage] == ["repeats the trace 'tr-1'"]


def test_a_row_that_is_no_json_is_reported(tmp_path: Path) -> None:
    path = database(tmp_path / "t.db")
    with closing(sqlite3.connect(path)) as made:
        made.execute("UPDATE traces SET data = '{cut' WHERE trace_id = 'tr-3'")
        made.commit()
    assert [damage.what for damage in read(path).damage] == ["row 'tr-3' holds no JSON object"]
    with closing(sqlite3.connect(path)) as made:
        made.execute("DROP TABLE traces")
        made.commit()
    with pytest.raises(TraceError, match="expected those of OpenCode or of rLLM's gateway"):
        read(path)
