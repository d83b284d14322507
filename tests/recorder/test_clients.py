"""The real clients through the proxy, with an agent that compacts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import litellm
import openai
import pytest
from langchain_openai import ChatOpenAI

from tests.recorder.agent import Agent, Ask, Message, account_of, junctions

Recording = Callable[..., Any]
KEY = "sk-never-written-anywhere-0123456789"


def openai_client(base: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{base}/v1", api_key=KEY, max_retries=0)


def chat(base: str) -> Ask:
    client = openai_client(base)

    def ask(messages: list[Message]) -> str:
        answer = client.chat.completions.create(model="ok", messages=messages)  # type: ignore[arg-type]
        return answer.choices[0].message.content or ""

    return ask


def chat_streamed(base: str) -> Ask:
    client = openai_client(base)

    def ask(messages: list[Message]) -> str:
        chunks = client.chat.completions.create(model="ok", messages=messages, stream=True)  # type: ignore[arg-type]
        return "".join(c.choices[0].delta.content or "" for c in chunks)  # type: ignore[union-attr]

    return ask


def responses(base: str) -> Ask:
    client = openai_client(base)

    def ask(messages: list[Message]) -> str:
        return client.responses.create(model="ok", input=messages).output_text  # type: ignore[arg-type]

    return ask


def responses_streamed(base: str) -> Ask:
    client = openai_client(base)

    def ask(messages: list[Message]) -> str:
        with client.responses.stream(model="ok", input=messages) as stream:  # type: ignore[arg-type]
            return str(stream.get_final_response().output_text)

    return ask


def split(messages: list[Message]) -> tuple[str, list[Message]]:
    return messages[0]["content"], messages[1:]


def claude(base: str) -> Ask:
    client = anthropic.Anthropic(base_url=base, api_key=KEY, max_retries=0)

    def ask(messages: list[Message]) -> str:
        system, rest = split(messages)
        answer = client.messages.create(model="ok", max_tokens=9, system=system, messages=rest)  # type: ignore[arg-type]
        return str(answer.content[0].text)  # type: ignore[union-attr]

    return ask


def claude_streamed(base: str) -> Ask:
    client = anthropic.Anthropic(base_url=base, api_key=KEY, max_retries=0)

    def ask(messages: list[Message]) -> str:
        system, rest = split(messages)
        with client.messages.stream(
            model="ok",
            max_tokens=9,
            system=system,
            messages=rest,  # type: ignore[arg-type]
        ) as stream:
            return "".join(stream.text_stream)

    return ask


def lite(base: str) -> Ask:
    def ask(messages: list[Message]) -> str:
        answer = litellm.completion(
            "openai/ok", messages=messages, api_base=f"{base}/v1", api_key=KEY, num_retries=0
        )
        return str(answer.choices[0].message.content)

    return ask


def chain(base: str) -> Ask:
    model = ChatOpenAI(model="ok", base_url=f"{base}/v1", api_key=KEY, max_retries=0)  # type: ignore[arg-type]

    def ask(messages: list[Message]) -> str:
        return str(model.invoke([(m["role"], m["content"]) for m in messages]).content)

    return ask


def chain_streamed(base: str) -> Ask:
    model = ChatOpenAI(model="ok", base_url=f"{base}/v1", api_key=KEY, max_retries=0)  # type: ignore[arg-type]

    def ask(messages: list[Message]) -> str:
        parts = model.stream([(m["role"], m["content"]) for m in messages])
        return "".join(str(part.content) for part in parts)

    return ask


CLIENTS = {
    "openai chat": chat,
    "openai chat, streamed": chat_streamed,
    "openai responses": responses,
    "openai responses, streamed": responses_streamed,
    "anthropic": claude,
    "anthropic, streamed": claude_streamed,
    "litellm": lite,
    "langchain": chain,
    "langchain, streamed": chain_streamed,
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_clients_loop_is_recorded_with_the_junctions_it_made(
    client: str, recording: Recording, tmp_path: Path
) -> None:
    with recording() as recorder:
        agent = Agent(CLIENTS[client](recorder.base("boats")))
        agent.run()
        trace = recorder.trace()
    account = account_of(agent, tmp_path)
    assert trace.damage == ()
    assert trace.rollouts[0].id == "boats"
    made = junctions(trace)
    assert made == junctions(account)
    assert [kind for kind, *_ in made] == ["summary", "summary"]
    assert trace.analyses[0].tree.size == account.analyses[0].tree.size
    calls = trace.rollouts[0].calls
    assert {call.content for call in calls} == {"exact"}
    assert [c.completion[0].text for c in calls if c.completion] == [
        told["completion"]["content"] for told in agent.account
    ]
    assert KEY.encode() not in recorder.path.read_bytes()


def test_raw_prompts_are_recorded(recording: Recording) -> None:
    with recording() as recorder:
        client = openai_client(recorder.base())
        whole = client.completions.create(model="ok", prompt="Tell me")
        parts = client.completions.create(model="ok", prompt="Tell me more", stream=True)
        texts = [whole.choices[0].text, "".join(part.choices[0].text for part in parts)]
        trace = recorder.trace()
    calls = trace.rollouts[0].calls
    assert [c.prompt[0].text for c in calls if c.prompt] == ["Tell me", "Tell me more"]
    assert [c.completion[0].text for c in calls if c.completion] == texts


@contextmanager
def many(base: str, names: list[str]) -> Iterator[dict[str, Agent]]:
    yield {name: Agent(chat(f"{base}/r/{name}"), name=name) for name in names}


def test_rollouts_stay_apart(recording: Recording) -> None:
    with recording() as recorder, many(recorder.url, ["one", "two"]) as agents:
        for agent in agents.values():
            agent.run(steps=2)
        trace = recorder.trace()
    assert [r.id for r in trace.rollouts] == ["one", "two"]
    for rollout in trace.rollouts:
        texts = [m.text for call in rollout.calls for m in call.prompt or ()]
        others = {"one", "two"} - {rollout.id}
        assert not [text for text in texts if text.startswith(tuple(others))]
