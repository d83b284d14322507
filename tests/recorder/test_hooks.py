"""Recording inside the program: client hooks, callbacks, a trainer's rows."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import litellm
import numpy as np
import openai
import pytest
from langchain_openai import ChatOpenAI

import mwviz
from mwviz.errors import SetupError, TraceError
from mwviz.recorder.calllog import CallLog
from mwviz.recorder.langchain import RecordingHandler
from mwviz.recorder.litellm import RecordingLogger
from mwviz.recorder.secrets import Secrets
from mwviz.trace import Trace, load
from tests.recorder.agent import Agent, Message, account_of, junctions
from tests.recorder.conftest import finished, soon
from tests.recorder.running import DEADLINE
from tests.recorder.upstream import Upstream, reply_to, upstream

KEY = "sk-never-written-anywhere-0123456789"
ASKED = [{"role": "user", "content": "Which pier?"}]


@pytest.fixture
def provider() -> Iterator[Upstream]:
    with upstream() as state:
        yield state


def openai_client(provider: Upstream, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{provider.url}/v1", api_key=KEY, max_retries=0, **options)


def same_as_the_account(trace: Trace, agent: Agent, folder: Path) -> None:
    made = junctions(trace)
    assert trace.damage == ()
    assert made == junctions(account_of(agent, folder))
    assert [kind for kind, *_ in made] == ["summary", "summary"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_hooked_openai_client_writes_its_calls(
    provider: Upstream, tmp_path: Path, stream: bool
) -> None:
    out = tmp_path / "run.jsonl"
    client: Any = mwviz.record(openai_client(provider), out, rollout="a")

    def ask(messages: list[Message]) -> str:
        answer: Any = client.chat.completions.create(
            model="ok",
            messages=messages,
            stream=stream,
        )
        if not stream:
            return str(answer.choices[0].message.content)
        return "".join(chunk.choices[0].delta.content or "" for chunk in answer)

    agent = Agent(ask)
    agent.run()
    same_as_the_account(load(out), agent, tmp_path)
    assert KEY.encode() not in out.read_bytes()


def test_a_hooked_anthropic_client_writes_its_calls(provider: Upstream, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    raw = anthropic.Anthropic(base_url=provider.url, api_key=KEY, max_retries=0)
    client = mwviz.record(raw, out)

    def ask(messages: list[Message]) -> str:
        with client.messages.stream(
            model="ok",
            max_tokens=9,
            system=messages[0]["content"],
            messages=messages[1:],  # type: ignore[arg-type]
        ) as stream:
            return "".join(stream.text_stream)

    agent = Agent(ask)
    agent.run()
    same_as_the_account(load(out), agent, tmp_path)


def test_a_hooked_client_of_asyncio_writes_its_calls(provider: Upstream, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"

    async def both() -> list[str]:
        client: Any = mwviz.record(
            openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key=KEY), out
        )
        whole = await client.chat.completions.create(model="ok", messages=ASKED)
        parts = await client.chat.completions.create(model="ok", messages=ASKED, stream=True)
        text = "".join([c.choices[0].delta.content or "" async for c in parts])
        return [whole.choices[0].message.content or "", text]

    heard = finished(both)
    calls = load(out).rollouts[0].calls
    assert heard == [reply_to("Which pier?")] * 2
    assert [c.completion[0].text for c in calls if c.completion] == heard
    assert [c.finish for c in calls] == ["stop", "stop"]


def test_clients_can_share_one_log_and_copies_write_too(provider: Upstream, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    with CallLog(out, secrets=Secrets()) as log:
        for name in ("a", "b"):
            client = mwviz.record(openai_client(provider), log, rollout=name)
            hot = [{"role": "user", "content": f"{name}: {KEY}"}]
            client.with_options(timeout=DEADLINE).chat.completions.create(model="ok", messages=hot)  # type: ignore[arg-type]
    trace = load(out)
    assert [r.id for r in trace.rollouts] == ["a", "b"]
    assert [r.calls[0].prompt[0].text for r in trace.rollouts if r.calls[0].prompt] == [
        "a: [masked]",
        "b: [masked]",
    ]


def test_a_client_that_is_recorded_anew_writes_each_call_once(tmp_path: Path) -> None:
    client = echoing_client()
    for name, file in (("a", "one"), ("a", "one"), ("b", "one"), ("b", "two")):
        mwviz.record(client, tmp_path / file, rollout=name)
        asked = [{"role": "user", "content": f"{name} {file}"}]
        client.chat.completions.create(model="ok", messages=asked)  # type: ignore[arg-type]
    said = {
        file: {
            rollout.id: [call.prompt[-1].text for call in rollout.calls if call.prompt]
            for rollout in load(tmp_path / file).rollouts
        }
        for file in ("one", "two")
    }
    assert said == {"one": {"a": ["a one", "a one"], "b": ["b one"]}, "two": {"b": ["b two"]}}


def test_clients_that_name_one_file_share_it(tmp_path: Path) -> None:
    """Two writers would number their messages alike and mix up what was said."""
    out = tmp_path / "run.jsonl"
    names = ("a", "b", "c")
    clients = [mwviz.record(echoing_client(), out, rollout=name) for name in names]

    def ask(client: openai.OpenAI, name: str) -> None:
        for at in range(20):
            asked = [{"role": "user", "content": f"{name} {at}"}]
            client.chat.completions.create(model="ok", messages=asked)  # type: ignore[arg-type]

    threads = [threading.Thread(target=ask, args=pair) for pair in zip(clients, names, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trace = load(out)
    assert trace.damage == ()
    for rollout in trace.rollouts:
        said = [[m.text for m in (*(c.prompt or ()), *(c.completion or ()))] for c in rollout.calls]
        assert said == [[f"{rollout.id} {at}", f"re {rollout.id} {at}"] for at in range(20)]
    assert len(trace.rollouts) == 3
    with pytest.raises(TraceError, match="another recorder writes to it"):
        CallLog(out)


def echoing_client() -> openai.OpenAI:
    """A client whose answers are whole before anyone reads them, as those of a cache are."""

    def answer(request: httpx.Request) -> httpx.Response:
        asked = json.loads(request.content)["messages"][-1]["content"]
        message = {"role": "assistant", "content": f"re {asked}"}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"id": "x", "object": "chat.completion", "created": 1, "model": "ok"}
        return httpx.Response(200, json={**body, "choices": [choice]})

    http = httpx.Client(transport=httpx.MockTransport(answer))
    return openai.OpenAI(base_url="http://x/v1", api_key=KEY, http_client=http)  # type: ignore[arg-type]


def test_a_file_is_free_again_when_its_recorder_is_done(tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    for _ in range(2):
        with CallLog(out) as log:
            client = mwviz.record(echoing_client(), log)
            client.chat.completions.create(model="ok", messages=ASKED)  # type: ignore[arg-type]
    assert [call.id for call in load(out).rollouts[0].calls] == ["x", "x@1"]


def test_what_cannot_be_hooked_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="expected one of the openai or anthropic package"):
        mwviz.record(object(), tmp_path / "run.jsonl")


def test_the_litellm_callback_writes_every_call(
    provider: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run.jsonl"
    monkeypatch.setattr(litellm, "callbacks", [RecordingLogger(out)])
    written = 0

    def ask(messages: list[Message]) -> str:
        nonlocal written
        answer = litellm.completion(
            "openai/ok",
            messages=messages,
            api_base=f"{provider.url}/v1",
            api_key=KEY,
            metadata={"session_id": "boats"},
        )
        written += 1
        soon(lambda: out.read_bytes().count(b"\n") == written)  # LiteLLM logs in a thread
        return str(answer.choices[0].message.content)

    agent = Agent(ask)
    agent.run()
    trace = load(out)
    assert trace.format == "litellm"
    same_as_the_account(trace, agent, tmp_path)
    assert KEY.encode() not in out.read_bytes()


def test_the_langchain_callback_writes_every_run(provider: Upstream, tmp_path: Path) -> None:
    out = tmp_path / "run.jsonl"
    model = ChatOpenAI(model="ok", base_url=f"{provider.url}/v1", api_key=KEY, max_retries=0)  # type: ignore[arg-type]
    config: Any = {"callbacks": [RecordingHandler(out)], "metadata": {"thread_id": "boats"}}

    def ask(messages: list[Message]) -> str:
        return str(model.invoke([(m["role"], m["content"]) for m in messages], config).content)

    agent = Agent(ask)
    agent.run()
    failing = ChatOpenAI(model="error", base_url=f"{provider.url}/v1", api_key=KEY, max_retries=0)  # type: ignore[arg-type]
    trace = load(out)
    assert trace.format == "langchain"
    assert trace.rollouts[0].id == "boats"
    same_as_the_account(trace, agent, tmp_path)
    with pytest.raises(openai.InternalServerError):
        failing.invoke([("user", "Which pier?")], config)
    last = load(out).rollouts[0].calls[-1]
    assert (last.finish, last.completion) == ("error", None)
    assert KEY.encode() not in out.read_bytes()


def rows() -> list[dict[str, Any]]:
    return [
        {"rollout": "a", "order": 1, "prompt_ids": [1, 2, 3, 4, 9], "completion_ids": [5]},
        {
            "rollout": "a",
            "order": 0,
            "prompt_ids": np.array([1, 2]),
            "completion_ids": [3, 4],
            "logprobs": [-0.5, -1],
        },
        {"rollout": "b", "prompt_ids": [7], "completion_ids": [], "reward": 1},
    ]


def test_a_trainers_rows_become_rollouts() -> None:
    first, second = mwviz.from_token_rows(rows(), tokenizer="t")
    assert (first.id, second.id, first.tokenizer) == ("a", "b", "t")
    tree = mwviz.analyse(first).tree
    assert tree.ids.tolist() == [1, 2, 3, 4, 9, 5]
    assert tree.logprob[:2].tolist() == [-0.5, -1]
    assert second.calls[0].reward == 1


def test_rounding_above_zero_is_zero_and_what_is_no_number_was_not_recorded() -> None:
    told = [1e-4, 0, float("nan"), float("-inf"), -2]
    row = {"prompt_ids": [1], "completion_ids": [2, 3, 4, 5, 6], "logprobs": told}
    (rollout,) = mwviz.from_token_rows([row])
    found = rollout.calls[0].logprobs
    assert found is not None
    assert found.tolist() == pytest.approx([0, 0, np.nan, np.nan, -2], nan_ok=True, abs=0)


def test_a_row_says_what_a_cache_kept() -> None:
    first = {"lineage": "a", "prompt_ids": [1, 2, 2, 3], "completion_ids": [4]}
    then = {"lineage": "a", "prompt_ids": [1, 2, 3, 4, 5], "completion_ids": [6]}
    for kept in ([(0, 2), (3, 5)], np.array([[0, 1], [2, 5]])):
        (rollout,) = mwviz.from_token_rows([first, {**then, "semantics": "kv_orig", "kept": kept}])
        tree = mwviz.analyse(rollout).tree
        assert rollout.calls[1].semantics == "kv_orig"
        shown = tree.origin[tree.context(1)[:4]].tolist()
        spans = [place for start, end in kept for place in range(start, end)]
        assert shown == spans  # the entries of the first call, in their order


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt_ids": None}, "row 0: no prompt_ids, expected token ids"),
        ({"prompt_ids": [[1]]}, r"row 0: prompt_ids has shape \(1, 1\) of int64"),
        ({"prompt_ids": [1.5]}, "expected whole numbers"),
        ({"prompt_ids": [-1]}, "expected whole numbers of 0 to"),
        ({"logprobs": [1, 2]}, "expected numbers, one for each of 1 completion ids"),
        (
            {"logprobs": [0.5]},
            r"row 0: logprobs\[0\] is 0.5, expected a number of at most 0, or NaN",
        ),
        ({"logprobs": [np.inf]}, r"row 0: logprobs\[0\] is inf, expected a number of at most 0"),
        ({"reward": "much"}, "row 0: reward is 'much', expected a finite number"),
        ({"reward": float("nan")}, "row 0: reward is nan, expected a finite number"),
        ({"reward": float("-inf")}, "row 0: reward is -inf, expected a finite number"),
        ({"temperature": float("inf")}, "row 0: temperature is inf, expected a finite number"),
        ({"ids": [1]}, "row 0: unknown key 'ids', expected"),
        ({"order": "late"}, "row 0: order is 'late', expected a finite number"),
        ({"prompt_ids": [[1], [2, 3]]}, "row 0: prompt_ids is not one flat list"),
        ({"semantics": "warm"}, "row 0: semantics is 'warm', expected one of re_prefill, kv_orig"),
        ({"kept": [[3, 2]]}, r"row 0: kept\[0\] is .*expected \[start, end\) in tokens, 0 or more"),
    ],
)
def test_a_row_that_is_wrong_is_named(change: dict[str, Any], message: str) -> None:
    first, *rest = rows()
    with pytest.raises(TraceError, match=message):
        mwviz.from_token_rows([{**first, **change}, *rest])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"prompt_ids": [1]}, "rows is a dict, expected a list"),
        ("rows", "rows is a str, expected a list"),
        (None, "rows is a NoneType, expected a list"),
        ([5], "row 0: is a int, expected a dict"),
    ],
)
def test_what_are_no_rows_is_named(rows: Any, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        mwviz.from_token_rows(rows)
