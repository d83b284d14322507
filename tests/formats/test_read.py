from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mwviz.errors import TraceError
from mwviz.formats import FORMATS, read
from mwviz.formats.records import Records

DATA = Path(__file__).parents[1] / "data"
CASES = DATA / "cases"
FIXTURES = DATA / "formats"
ORDER_ONLY = ("messages", "codex", "gemini-cli", "qwen-agent")
"""Formats in which nothing but the order of lines tells one call from the next."""
FUZZ = settings(max_examples=40, deadline=None)
"""Every format is broken this often; a busy machine is no failure."""
CHAT = [
    {"role": "user", "content": "q 'x' {y}"},
    {"role": "assistant", "content": "a"},
    {"role": "user", "content": "r"},
    {"role": "assistant", "content": "b"},
]
SAMPLES: dict[str, list[Any]] = {
    "mwviz/1": [
        {"t": "header", "v": 1},
        {"t": "msg", "id": "a", "role": "user", "content": "q"},
        {"t": "call", "id": "k0", "prompt": ["a"]},
        {
            "t": "tok",
            "call": "k0",
            "base": None,
            "keep": 0,
            "prompt_add": [1, 2],
            "completion": [3],
        },
        {"t": "call", "id": "k1", "prompt": [["a", "a"]], "completion": []},
        {"t": "tok", "call": "k1", "base": "k0", "keep": 3, "prompt_add": [4], "completion": [5]},
    ],
    "claude-code": [
        json.loads(line) for line in (CASES / "H16" / "session.jsonl").read_text().splitlines()
    ],
    "calls": [
        {"call": n, "prompt_ids": [1, 2, n], "completion_ids": [3], "logprobs": [-0.5]}
        for n in range(4)
    ],
    "messages": CHAT,
}
for folder in sorted(FIXTURES.iterdir()):
    trace = next(path for path in sorted(folder.iterdir()) if path.name != "README.md")
    SAMPLES[folder.name] = [record.value for record in Records(trace)]


def lines_of(name: str) -> list[bytes]:
    return [json.dumps(record).encode() for record in SAMPLES[name]]


def test_every_format_has_a_sample() -> None:
    assert {known.name for known in FORMATS} == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_format_is_found_from_the_content(name: str) -> None:
    reading = read(b"\n".join(lines_of(name)))
    assert reading.format == name
    assert reading.rollouts[0].source.format == name
    assert reading.damage == ()


MORE_GENERAL = {
    "mwviz/1": {"messages"},
    "litellm": {"openai-chat"},
    "openhands-calls": {"openai-chat"},
    "mask-spans": {"verl-agent-loop"},
    "memexrl": {"rllm"},
    "prime-rl": {"calls"},
    "trl": {"calls"},
    "qwen-agent": {"messages"},
    "resum": {"messages"},
    "rllm-gateway": {"messages"},
}
"""Formats that would read a trace of another one too, and therefore stand behind it."""


@pytest.mark.parametrize("name", SAMPLES)
def test_no_other_format_claims_a_trace(name: str) -> None:
    head = Records(b"\n".join(lines_of(name))).head()
    claimed = {known.name for known in FORMATS if known.detects(head)}
    assert claimed == {name} | MORE_GENERAL.get(name, set())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_format_is_found_behind_damaged_first_lines(name: str) -> None:
    lines = lines_of(name)
    reading = read(b"\n".join([lines[0][:-4], *lines]))
    assert reading.format == name
    assert [d.line for d in reading.damage] == [1]
    assert reading.rollouts[0].damage == reading.damage


def test_a_format_is_found_behind_a_huge_record_of_no_meaning() -> None:
    snapshot = json.dumps({"type": "file-history-snapshot", "snapshot": "x" * (5 << 20)}).encode()
    assert read(b"\n".join([snapshot, *lines_of("claude-code")])).format == "claude-code"


def test_a_named_format_is_not_guessed() -> None:
    with pytest.raises(TraceError, match="no calls, 4 damaged places, the first: no prompt"):
        read(b"\n".join(lines_of("messages")), format="calls")
    with pytest.raises(
        TraceError, match="unknown format 'x'; expected one of mwviz/1, claude-code"
    ):
        read(b"{}", format="x")


def test_an_unknown_format_is_described() -> None:
    with pytest.raises(TraceError) as caught:
        read(b'{"alpha":1,"beta":"<b>"}')
    text = str(caught.value)
    assert text.startswith("<bytes>:1: a record with the keys 'alpha, beta'")
    assert all(known.name in text for known in FORMATS)


def test_messages_about_trace_text_are_short_and_escaped() -> None:
    with pytest.raises(TraceError) as caught:
        read(json.dumps({"\x1b[31m" + "k" * 10_000: 1}).encode())
    assert len(str(caught.value)) < 1000
    assert "\x1b" not in str(caught.value)


def test_every_format_says_what_it_cannot_know() -> None:
    for known in FORMATS:
        assert known.fidelity.endswith(".")
        assert known.unknowable.endswith(".")


def call_ids(data: bytes) -> set[str]:
    return {call.id for rollout in read(data).rollouts for call in rollout.calls}


@pytest.mark.parametrize("name", [name for name in SAMPLES if name not in ORDER_ONLY])
@FUZZ
@given(seed=st.integers(0, 10_000), copies=st.integers(0, 3))
def test_shuffled_and_repeated_lines_lose_no_call(name: str, seed: int, copies: int) -> None:
    lines = lines_of(name)
    expected = call_ids(b"\n".join(lines))
    order = random.Random(seed)
    mixed = lines + order.choices(lines, k=copies)
    order.shuffle(mixed)
    assert call_ids(b"\n".join(mixed)) >= expected


@pytest.mark.parametrize("name", SAMPLES)
@FUZZ
@given(data=st.data())
def test_damaged_bytes_give_calls_or_a_trace_error(name: str, data: st.DataObject) -> None:
    broken = bytearray(b"\n".join(lines_of(name)))
    for _ in range(data.draw(st.integers(0, 5))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(broken[: data.draw(st.integers(0, len(broken)))])
    try:
        reading = read(cut)
    except TraceError:
        return
    assert any(rollout.calls for rollout in reading.rollouts)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@pytest.mark.parametrize("name", SAMPLES)
@FUZZ
@given(data=st.data())
def test_wrong_values_are_damage_and_never_a_crash(name: str, data: st.DataObject) -> None:
    records = json.loads(json.dumps(SAMPLES[name]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(records))
        while True:
            key = data.draw(st.sampled_from(sorted(place)))
            inner = place[key]
            if not (isinstance(inner, dict) and inner and data.draw(st.booleans())):
                break
            place = inner
        place[key] = data.draw(JSON_VALUES)
    text = "\n".join(json.dumps(record) for record in records).encode()
    known = len(list(Records(text)))
    try:
        reading = read(text, format=name)
    except TraceError:
        return
    assert known == len(records)
    assert any(rollout.calls for rollout in reading.rollouts)


@pytest.mark.parametrize("name", ["calls", "messages"])
@given(data=st.data())
def test_each_line_is_a_call_a_message_or_reported(name: str, data: st.DataObject) -> None:
    records = json.loads(json.dumps(SAMPLES[name]))
    bad = data.draw(st.sets(st.integers(0, len(records) - 1), max_size=len(records) - 1))
    for at in bad:
        records[at] = data.draw(st.just({"role": 5}) | st.just({"prompt_ids": "x"}) | st.just([]))
    text = "\n".join(json.dumps(record) for record in records).encode()
    try:
        reading = read(text, format=name)
    except TraceError:
        return
    reported = {d.line - 1 for d in reading.damage}
    empty_lists = {at for at in bad if records[at] == []} if name == "messages" else set()
    assert reported == bad - empty_lists
