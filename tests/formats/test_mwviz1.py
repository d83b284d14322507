from __future__ import annotations

import hashlib
import io
import json
from dataclasses import replace
from importlib import resources
from typing import Any, get_args

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mwviz.errors import TraceError
from mwviz.formats import Reading, read, write
from mwviz.formats.partners import unanswered, unpaired
from mwviz.rollout import (
    Call,
    ContentFidelity,
    Floats,
    Hint,
    Hole,
    Mark,
    Message,
    Part,
    PartKind,
    Rollout,
    Semantics,
    Span,
    Usage,
)

SCHEMA = jsonschema.Draft202012Validator(
    json.loads(resources.files("mwviz.formats").joinpath("mwviz-1.schema.json").read_text())
)
TEXT = st.text(max_size=6)
MAYBE = st.none() | TEXT
NAMES = st.none() | st.text(min_size=1, max_size=6)
"""A name that is empty counts as none where messages are compared."""
COUNTS = st.none() | st.integers(0, 10**7)
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
PARTS = st.builds(Part, st.sampled_from(get_args(PartKind)), TEXT, NAMES, NAMES)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool", "developer"]),
    st.lists(PARTS, max_size=3).map(tuple),
    id=MAYBE,
    name=NAMES,
    mark=st.none() | st.sampled_from(get_args(Mark)),
)
IDS = st.lists(st.integers(0, 2**31 - 1), max_size=12).map(lambda ids: np.array(ids, np.int32))
SPANS = st.builds(
    lambda a, n, *rest: Span(a, a + n, *rest),
    st.integers(0, 9),
    st.integers(0, 9),
    TEXT,
    TEXT,
    TEXT,
)


RANGES = st.lists(st.integers(0, 9), max_size=6, unique=True).map(
    lambda cuts: tuple(zip(sorted(cuts)[::2], sorted(cuts)[1::2], strict=False))
)


def logprobs_of(count: int) -> st.SearchStrategy[Floats]:
    one = st.floats(-100, 0, width=32) | st.just(float("nan"))
    return st.lists(one, min_size=count, max_size=count).map(lambda v: np.array(v, np.float32))


@st.composite
def rollouts(draw: st.DrawFn) -> list[Rollout]:
    pool = draw(st.lists(MESSAGES, min_size=1, max_size=5))
    some = st.lists(st.sampled_from(pool), max_size=6).map(tuple)
    found = []
    for name in draw(st.lists(TEXT, min_size=1, max_size=2, unique=True)):
        calls: list[Call] = []
        for call_id in draw(st.lists(TEXT, min_size=1, max_size=5, unique=True)):
            prompt_ids = draw(st.none() | IDS)
            if prompt_ids is not None and calls and calls[-1].prompt_ids is not None:
                keep = calls[-1].prompt_ids[: draw(st.integers(0, len(calls[-1].prompt_ids)))]
                prompt_ids = np.concatenate((keep, prompt_ids), dtype=np.int32)
            completion_ids = None if prompt_ids is None else draw(st.none() | IDS)
            given_logprobs = completion_ids is not None and draw(st.booleans())
            calls.append(
                Call(
                    call_id,
                    prompt=draw(some) if prompt_ids is None else draw(st.none() | some),
                    completion=draw(st.none() | some),
                    prompt_ids=prompt_ids,
                    completion_ids=completion_ids,
                    spans=None
                    if prompt_ids is None
                    else draw(st.none() | st.lists(SPANS, max_size=2).map(sorted).map(tuple)),
                    kept=None if prompt_ids is None else draw(st.none() | RANGES),
                    logprobs=draw(logprobs_of(len(completion_ids)))
                    if given_logprobs and completion_ids is not None
                    else None,
                    lineage=draw(MAYBE),
                    usage=draw(st.none() | st.builds(Usage, COUNTS, COUNTS, COUNTS)),
                    temperature=draw(NUMBERS),
                    model=draw(MAYBE),
                    weights=draw(MAYBE),
                    finish=draw(MAYBE),
                    time=draw(NUMBERS),
                    reward=draw(NUMBERS),
                    content=draw(st.sampled_from(get_args(ContentFidelity))),
                    tokens=draw(st.sampled_from(["recorded", "rendered"])),
                    holes=draw(
                        st.lists(st.builds(Hole, TEXT, MAYBE, COUNTS), max_size=2).map(tuple)
                    ),
                    hints=draw(st.lists(st.builds(Hint, TEXT, TEXT), max_size=2).map(tuple)),
                    semantics=draw(st.none() | st.sampled_from(get_args(Semantics))),
                )
            )
        found.append(
            Rollout(
                name,
                tuple(calls),
                semantics=draw(st.sampled_from(get_args(Semantics))),
                tokenizer=draw(MAYBE),
                reward=draw(NUMBERS),
                warnings=draw(st.lists(TEXT, max_size=2).map(tuple)),
                meta=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
            )
        )
    return found


def written(found: list[Rollout]) -> str:
    file = io.StringIO()
    write(found, file)
    return file.getvalue()


def again(found: list[Rollout]) -> Reading:
    return read(written(found).encode("utf-8"))


def plain(call: Call) -> dict[str, Any]:
    """All that a file keeps of a call, in comparable form."""
    arrays = {key: getattr(call, key) for key in ("prompt_ids", "completion_ids", "logprobs")}
    messages = {
        key: None if held is None else [replace(message, line=None) for message in held]
        for key, held in (("prompt", call.prompt), ("completion", call.completion))
    }
    scalars = (
        "id lineage usage temperature model weights finish time reward content tokens holes hints "
        "semantics spans kept"
    )
    return {
        **{
            key: None if held is None else (str(held.dtype), str(held.tolist()))
            for key, held in arrays.items()
        },
        **messages,
        **{key: getattr(call, key) for key in scalars.split()},
    }


@given(rollouts())
def test_what_is_written_is_read_back(found: list[Rollout]) -> None:
    reading = again(found)
    assert reading.format == "mwviz/1"
    assert reading.damage == ()
    assert len(reading.rollouts) == len(found)
    for left, right in zip(found, reading.rollouts, strict=True):
        for key in ("id", "semantics", "tokenizer", "reward", "meta"):
            assert getattr(left, key) == getattr(right, key)
        told = (*unpaired(right), *unanswered(right))
        assert left.warnings == right.warnings[: len(left.warnings)]
        assert set(right.warnings) - set(left.warnings) == set(told) - set(left.warnings)
        assert [plain(call) for call in left.calls] == [plain(call) for call in right.calls]


@given(rollouts())
def test_every_written_line_follows_the_published_schema(found: list[Rollout]) -> None:
    for line in written(found).split("\n")[:-1]:
        SCHEMA.validate(json.loads(line))


def test_the_schema_refuses_what_the_reader_refuses() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA.schema)
    for record in (
        {"t": "call"},
        {"t": "header", "v": 2},
        {"t": "tok", "call": "k", "completion": [-1]},
        {"t": "call", "id": "k", "fidelity": "sure"},
        {"t": "other"},
    ):
        assert not SCHEMA.is_valid(record)


def test_size_is_linear_where_each_call_repeats_the_one_before() -> None:
    random = np.random.default_rng(0)
    ids = random.integers(0, 50_000, 40_000).astype(np.int32)
    message = [Message("user", (Part("text", "word " * 40 + str(n)),)) for n in range(400)]

    def long(count: int) -> int:
        calls = [
            Call(
                str(n),
                prompt=tuple(message[: n + 1]),
                prompt_ids=ids[: n * 100],
                completion_ids=ids[n * 100 :][:100],
            )
            for n in range(count)
        ]
        return len(written([Rollout("r", tuple(calls))]))

    assert long(400) < 2.2 * long(200)


def test_a_token_delta_goes_against_the_call_that_shares_most() -> None:
    def call(name: str, *ids: int, lineage: str = "main") -> Call:
        return Call(
            name,
            prompt_ids=np.array(ids, np.int32),
            completion_ids=np.array([99], np.int32),
            lineage=lineage,
        )

    made = [call("a", 1, 2, 3), call("b", 7, 8, lineage="sub"), call("c", 1, 2, 3, 99, 4)]
    tok = [
        json.loads(line)
        for line in written([Rollout("r", tuple(made))]).split("\n")
        if '"t":"tok"' in line
    ]
    assert [(r["base"], r["keep"], r["prompt_add"]) for r in tok] == [
        (None, 0, [1, 2, 3]),
        (None, 0, [7, 8]),
        ("a", 4, [4]),
    ]


LINES: list[dict[str, Any]] = [
    {"t": "header", "v": 1, "tokenizer": "org/name", "extra": {"kept": "unread"}},
    {"t": "msg", "id": "a", "role": "system", "content": "s"},
    {"t": "msg", "id": "b", "role": "user", "content": [{"type": "text", "text": "q"}]},
    {
        "t": "msg",
        "id": "c",
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "t", "name": "ls", "arguments": "{ }"}],
    },
    {"t": "msg", "id": "d", "role": "tool", "tool_call_id": "t", "content": "out"},
    {"t": "call", "id": "k1", "rollout": "r", "i": 0, "prompt": ["a", "b"], "completion": ["c"]},
    {
        "t": "call",
        "id": "k2",
        "rollout": "r",
        "i": 1,
        "prompt": [["a", "d"]],
        "completion": [],
        "hints": [{"kind": "compaction", "type": "summary", "by": "x"}],
    },
    {"t": "tok", "call": "k1", "base": None, "keep": 0, "prompt_add": [1, 2], "completion": [3]},
    {
        "t": "tok",
        "call": "k2",
        "base": "k1",
        "keep": 3,
        "prompt_add": [4],
        "completion": [],
        "prompt_len": 4,
        "prompt_sha": "blake2b:"
        + hashlib.blake2b(np.array([1, 2, 3, 4], "<i4").tobytes()).hexdigest(),
    },
    {"t": "rollout", "id": "r", "reward": 1.0, "parent": None, "meta": {"n": 3}},
]


def parse(lines: list[dict[str, Any]]) -> Reading:
    return read("\n".join(json.dumps(line) for line in lines).encode())


def test_a_hand_written_log_is_read() -> None:
    for line in LINES:
        SCHEMA.validate(line)
    reading = parse(LINES)
    (rollout,) = reading.rollouts
    first, second = rollout.calls
    assert reading.damage == ()
    assert (rollout.tokenizer, rollout.reward, rollout.meta) == ("org/name", 1.0, {"n": "3"})
    assert second.prompt_ids is not None
    assert second.prompt_ids.tolist() == [1, 2, 3, 4]
    assert second.prompt is not None
    assert [m.id for m in second.prompt] == ["a", "b", "c", "d"]
    assert second.prompt[2].parts == (Part("tool_call", "{}", name="ls", id="t"),)
    assert second.prompt[3].parts == (Part("tool_result", "out", id="t"),)
    assert second.hints == (Hint("summary", '{"by":"x"}'),)
    assert first.completion == (second.prompt[2],)


def edited(at: int, **change: object) -> list[dict[str, Any]]:
    return [{**line, **change} if n == at else line for n, line in enumerate(LINES)]


@pytest.mark.parametrize(
    ("at", "change", "message"),
    [
        (8, {"prompt_sha": "blake2b:00ff"}, "prompt_sha does not match"),
        (8, {"prompt_len": 5}, "prompt_len is 5, but the prompt has 4 tokens"),
        (8, {"keep": 9}, "keep is 9, expected at most the 3 tokens of base"),
        (8, {"base": "gone"}, "tokens relative to call 'gone', whose tokens are missing"),
        (8, {"base": "k2"}, "tokens relative to call 'k2', whose tokens are missing"),
        (8, {"base": None}, "keep is 3 without a base, expected 0"),
    ],
)
def test_tokens_that_do_not_check_out_cost_the_tokens_only(
    at: int, change: dict[str, Any], message: str
) -> None:
    reading = parse(edited(at, **change))
    (damage,) = reading.damage
    assert (damage.line, damage.kept) == (9, "its messages, if recorded")
    assert message in damage.what
    second = reading.rollouts[0].calls[1]
    assert second.prompt_ids is None
    assert second.tokens == "rendered"
    assert second.prompt is not None


@pytest.mark.parametrize(
    ("at", "change", "message"),
    [
        (6, {"prompt": ["a", "nope"]}, "message 'nope' is not in the file"),
        (6, {"prompt": [["d", "a"]]}, "runs backwards in the pool"),
        (6, {"prompt": [7]}, "7 in a prompt, expected an id or [first, last]"),
        (6, {"prompt_messages": 3}, "prompt has 4 messages, expected 3"),
    ],
)
def test_messages_that_do_not_resolve_cost_the_messages_only(
    at: int, change: dict[str, Any], message: str
) -> None:
    reading = parse(edited(at, **change))
    (damage,) = reading.damage
    assert damage.line == 7
    assert message in damage.what
    second = reading.rollouts[0].calls[1]
    assert (second.prompt, second.content) == (None, "unknown")
    assert second.prompt_ids is not None


def test_a_call_without_messages_and_tokens_is_damage() -> None:
    reading = parse([line for line in edited(6, prompt=["nope"]) if line.get("call") != "k2"])
    assert [call.id for call in reading.rollouts[0].calls] == ["k1"]
    assert [d.line for d in reading.damage] == [7, 7]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"t": "header", "v": 2}, "version 2, expected 1"),
        ({"t": "what"}, "t is 'what', expected one of header, msg, call, tok, rollout"),
        (
            {"t": "msg", "id": "a", "role": "system", "content": "other"},
            "message 'a' again with other content",
        ),
        (
            {"t": "call", "id": "k1", "rollout": "r", "prompt": []},
            "call 'k1' again; the first is kept",
        ),
        (
            {"t": "tok", "call": "k9", "completion": [1]},
            "tokens of call 'k9', which is not in the file",
        ),
        ({"t": "tok", "call": "k1", "completion": [1]}, "tokens of call 'k1' again"),
        (
            {"t": "tok", "call": "k1", "spans": [[2, 1, "a", "b", ""]]},
            "expected [start, end, message id, role, kind]",
        ),
        ({"t": "tok", "call": "k1", "kept": [[0, 2], [1, 3]]}, "kept[1] is [1, 3], expected"),
        ({"t": "tok", "call": "k1", "kept": [[2, 2]]}, "kept[0] is [2, 2], expected [start, end)"),
        ({"t": "tok", "call": "k1", "kept": [3]}, "kept[0] is 3, expected [start, end) in tokens"),
    ],
)
def test_records_that_break_the_format_are_dropped_and_named(
    record: dict[str, Any], message: str
) -> None:
    reading = parse([*LINES, record])
    (damage,) = reading.damage
    assert damage.line == 11
    assert message in damage.what
    assert len(reading.rollouts[0].calls) == 2


def test_a_log_without_calls_is_refused() -> None:
    with pytest.raises(TraceError, match="no calls in it, expected at least one of format mwviz/1"):
        parse(LINES[:3])


def test_messages_that_differ_in_their_mark_alone_stay_two() -> None:
    plain_one = Message("user", (Part("text", "x"),), id="m")
    pair = (plain_one, replace(plain_one, mark="summary"))
    (rollout,) = again([Rollout("r", (Call("0", prompt=pair),))]).rollouts
    assert [message.mark for message in rollout.calls[0].prompt or ()] == [None, "summary"]
