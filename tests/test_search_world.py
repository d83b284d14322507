"""The example search world: tasks, harnesses at work, sampling, and what is recorded of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.search_world import measure
from examples.search_world.__main__ import main
from examples.search_world.chat import Chat
from examples.search_world.episode import Episode, Request, Sampled, Sampler, play
from examples.search_world.expert import Expert
from examples.search_world.harnesses import HARNESSES, Harness, harness_named
from examples.search_world.sampling import ModelSampler
from examples.search_world.search import Search
from examples.search_world.server import ServerSampler
from examples.search_world.world import HELD_OUT, MOST_HOPS, make_task
from mwviz.analysis import Analysis
from mwviz.engine.model import Model
from mwviz.engine.score import score
from mwviz.errors import MwvizError
from mwviz.formats.mwviz1_writer import write
from mwviz.rollout import Rollout
from mwviz.summary import warnings
from mwviz.trace import load
from tests.engine.tiny import llama_config, model_of

START, STOP = 256, 257


class Characters:
    """One id a byte: needs no tokenizer."""

    def encode(self, text: str) -> Sequence[int]:
        return list(text.encode())

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(token for token in ids if token < START).decode(errors="replace")


CHAT = Chat(Characters(), start=START, stop=STOP)


@pytest.fixture(scope="module")
def tiny() -> Model:
    return model_of(llama_config(vocab_size=258, max_position_embeddings=8192))


def recorded(harness: Harness, sampler: Sampler, *, questions: int = 1, seed: int = 3) -> Rollout:
    episode = Episode(make_task(seed, questions=questions), harness, CHAT, name=harness.name)
    play([episode], sampler)
    return episode.rollout("llama")


def roomy(name: str) -> Harness:
    """The harness with limits for one id a byte, which makes messages some four times as long."""
    harness = harness_named(name)
    longer = {"window": 1320, "tail": 880} if name == "summary" else {"over": 1320}
    return harness.tuned(**longer) if name in ("summary", "fold") else harness


def test_a_seed_is_a_task_and_another_seed_another() -> None:
    assert make_task(5, questions=2, hops=3) == make_task(5, questions=2, hops=3)
    assert make_task(5).questions != make_task(6).questions
    with pytest.raises(ValueError, match="1 to 4 hops"):
        make_task(5, hops=MOST_HOPS + 1)


@pytest.mark.parametrize("hops", range(1, MOST_HOPS + 1))
def test_every_hop_is_found_by_the_name_before_it(hops: int) -> None:
    for seed in range(20):
        task = make_task(seed, questions=3, hops=hops)
        search = Search(task.documents)
        for question in task.questions:
            assert len(question.chain) == hops
            for fact in question.chain:
                best = search.find(fact.subject)[0]
                assert best.title == fact.subject
                assert fact.value in best.text
    assert search.find("xyzzy quux") == []


def test_answers_match_but_for_case_space_and_a_full_stop() -> None:
    question = make_task(1).questions[0]
    assert question.is_right(f"  {question.answer.upper()}. ")
    assert not question.is_right(question.answer + " or so")
    assert not question.is_right("")


KINDS = {
    "none": set(),
    "prune": {"placeholder"},
    "summary": {"summary_tail"},
    "fold": {"fold"},
    "window": {"drop"},
}


@pytest.mark.parametrize("name", KINDS)
def test_the_expert_earns_everything_under_every_harness(name: str) -> None:
    rollout = recorded(roomy(name), Expert(CHAT), questions=3)
    assert rollout.reward == 1
    junctions = Analysis(rollout).junction_list
    assert {junction.kind for junction in junctions} == KINDS[name]
    assert {junction.evidence for junction in junctions} <= {"recorded"}


@pytest.mark.parametrize("harness", HARNESSES, ids=lambda harness: harness.name)
def test_what_was_sampled_is_scored_again_as_it_was_recorded(tiny: Model, harness: Harness) -> None:
    rollout = recorded(harness, ModelSampler(tiny, stop=STOP))
    analysis = Analysis(rollout)
    scores = analysis.score(tiny, "logit_tree")
    assert not np.isnan(analysis.tree.logprob).any()
    np.testing.assert_allclose(scores.logprob, analysis.tree.logprob, atol=1e-4)
    if harness.name != "none":
        drift = np.abs(analysis.score(tiny, "rightmost").logprob - analysis.tree.logprob)
        assert np.nanmax(drift) > 0.1


def test_sampled_ids_enter_later_prompts_as_they_are(tiny: Model) -> None:
    rollout = recorded(harness_named("none"), ModelSampler(tiny, stop=STOP))
    context = np.empty(0, dtype=np.int32)
    for call in rollout.calls:
        assert call.prompt_ids is not None
        assert call.completion_ids is not None
        np.testing.assert_array_equal(call.prompt_ids[: len(context)], context)
        context = np.concatenate((call.prompt_ids, call.completion_ids))


def test_a_summary_is_quoted_as_it_was_sampled_behind_the_question_that_left(tiny: Model) -> None:
    rollout = recorded(harness_named("summary"), ModelSampler(tiny, stop=STOP))
    at = next(i for i, c in enumerate(rollout.calls) if c.spans and c.spans[-1].kind == "summary")
    said, after = rollout.calls[at].completion_ids, rollout.calls[at + 1]
    assert said is not None
    assert after.prompt_ids is not None
    content = said[:-1] if said[-1] == STOP else said
    (quoted,) = (span for span in after.spans or () if span.kind == "summary")
    message = after.prompt_ids[quoted.start : quoted.end]
    ending = message[-len(content) - len(CHAT.closing) : -len(CHAT.closing)]
    np.testing.assert_array_equal(ending, content)
    assert make_task(3).questions[0].text in CHAT.decode(message)


def test_spans_tile_every_prompt_and_completion(tiny: Model) -> None:
    for call in recorded(harness_named("prune"), ModelSampler(tiny, stop=STOP)).calls:
        ends = [0, *(span.end for span in call.spans or ())]
        assert [span.start for span in call.spans or ()] == ends[:-1]
        assert call.prompt_ids is not None
        assert call.completion_ids is not None
        assert ends[-1] == len(call.prompt_ids) + len(call.completion_ids)


def test_a_recording_reads_back_from_its_file(tiny: Model, tmp_path: Path) -> None:
    rollout = recorded(harness_named("fold"), ModelSampler(tiny, stop=STOP))
    write([rollout], tmp_path / "one.jsonl")
    (read,) = load(tmp_path / "one.jsonl").rollouts
    assert Analysis(read).digest == Analysis(rollout).digest
    assert (read.reward, read.meta["preset"]) == (rollout.reward, "agentfold-paper")
    kept = [call.logprobs for call in read.calls]
    for before, call in zip(kept, rollout.calls, strict=True):
        np.testing.assert_array_equal(before, call.logprobs)


def test_many_prompts_at_once_give_what_each_gives_alone(tiny: Model) -> None:
    prompts = [np.arange(2, 2 + size, dtype=np.int32) for size in (3, 90, 17)]
    for index, sampled in enumerate(ModelSampler(tiny, stop=STOP).complete(prompts, [6, 30, 12])):
        assert len(sampled.ids) <= (6, 30, 12)[index]
        assert sampled.logprobs is not None
        alone = _logprobs(tiny, prompts[index], sampled)
        np.testing.assert_allclose(sampled.logprobs.tolist(), alone, atol=1e-4)


def _logprobs(model: Model, prompt: np.ndarray[Any, Any], sampled: Sampled) -> list[float]:
    import torch

    ids = torch.from_numpy(np.concatenate((prompt, sampled.ids)).astype(np.int64))[None]
    with torch.no_grad():
        known = model.module(input_ids=ids).logits[0].log_softmax(-1)
    return [float(known[len(prompt) + i - 1, t]) for i, t in enumerate(sampled.ids.tolist())]


def test_a_harness_of_the_cache_is_refused_by_name() -> None:
    with pytest.raises(MwvizError, match="streaming-llm edits the cache"):
        Episode(make_task(1), harness_named("streaming-llm"), CHAT, name="x")


class Completions(BaseHTTPRequestHandler):
    """A server that answers every prompt with its own last ids; `spoil` makes it misbehave."""

    spoil = ""

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["temperature"] == 1.0
        choices = [
            {
                "index": index,
                "logprobs": {
                    "tokens": [f"token_id:{token}" for token in prompt[-3:]],
                    "token_logprobs": [-0.5, -1.5, -2.5],
                },
            }
            for index, prompt in enumerate(asked["prompt"])
        ]
        if self.spoil == "text":
            choices[0]["logprobs"]["tokens"] = ["a", "b", "c"]  # type: ignore[index]
        body = json.dumps({"choices": choices[::-1] if self.spoil != "few" else []}).encode()
        self.send_response(500 if self.spoil == "refuse" else 200)
        self.end_headers()
        self.wfile.write(b"no such model" if self.spoil == "refuse" else body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(Completions, "spoil", "")
    held = HTTPServer(("127.0.0.1", 0), Completions)
    thread = threading.Thread(target=held.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{held.server_port}"
    held.shutdown()
    thread.join()
    held.server_close()


def requests() -> list[Request]:
    made = [Episode(make_task(seed), HARNESSES[0], CHAT, name=str(seed)) for seed in (1, 2)]
    return [episode.request for episode in made if episode.request is not None]


def test_a_server_completes_prompts_of_ids_in_order(server: str) -> None:
    asked = requests()
    found = ServerSampler(server, model="m", stop=STOP).sample(asked)
    for request, sampled in zip(asked, found, strict=True):
        np.testing.assert_array_equal(sampled.ids, request.prompt_ids[-3:])
        assert sampled.logprobs is not None
        assert sampled.logprobs.tolist() == [-0.5, -1.5, -2.5]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        ("text", "gave no token ids"),
        ("few", "gave 0 completions of 2 prompts"),
        ("refuse", "500: no such model"),
    ],
)
def test_a_server_that_misbehaves_is_told_of(
    server: str, monkeypatch: pytest.MonkeyPatch, spoil: str, told: str
) -> None:
    monkeypatch.setattr(Completions, "spoil", spoil)
    with pytest.raises(MwvizError, match=told):
        ServerSampler(server, model="m", stop=STOP).sample(requests())


def test_a_server_that_is_not_there_is_told_of() -> None:
    with pytest.raises(MwvizError, match="no usable answer"):
        ServerSampler("http://127.0.0.1:9", model="m", stop=STOP).sample(requests())


def test_the_author_of_a_quoted_summary_is_found() -> None:
    analysis = Analysis(recorded(roomy("summary"), Expert(CHAT)))
    assert [junction.kind for junction in analysis.junction_list] == ["summary_tail"]
    assert not [told for told in warnings(analysis) if "summary" in told]


def test_facts_that_the_expert_copies_are_found_token_for_token() -> None:
    episode = Episode(make_task(HELD_OUT), HARNESSES[1], CHAT, name="x")
    play([episode], Expert(CHAT))
    calls = episode.rollout().calls
    names = []
    for call, start, stop in measure._facts(episode, CHAT):
        said = calls[call].completion_ids
        assert said is not None
        names.append(CHAT.decode(said[start:stop]))
    assert names == [fact.value for fact in episode.question.chain]


def test_a_measure_knows_who_copies_and_answers_from_who_does_not(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = measure.Measure(HARNESSES[1], questions=2, told=2, chat=lambda: CHAT)
    found = mine(tiny)
    assert found == {"reward": 0.0, "fact_copy": 0.0}
    assert mine(tiny) == found
    monkeypatch.setattr(measure, "ModelSampler", lambda *_, **__: Expert(CHAT))

    def sure(*given: Any) -> Iterator[Any]:
        """A model whose first choice is what the expert said."""
        for step in score(*given):
            yield step._replace(
                result=step.result and replace(step.result, rank=np.zeros_like(step.result.rank))
            )

    monkeypatch.setattr(measure, "score", sure)
    assert mine(tiny) == {"reward": 1.0, "fact_copy": 1.0}


def test_every_harness_has_a_measure_by_its_name() -> None:
    for harness in HARNESSES:
        assert getattr(measure, harness.name).harness == harness


def test_a_harness_that_is_not_there_is_told_of_with_those_that_are() -> None:
    with pytest.raises(MwvizError) as raised:
        harness_named("prun")
    told = str(raised.value)
    assert "no harness 'prun'; there are: none, prune, summary, fold, window; or a preset:" in told
    assert "tc-rag-paper" in told


def test_the_command_samples_a_task_many_times_with_an_adapter(
    tiny: Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[dict[str, Any]] = []

    def loaded(name: str, **options: Any) -> Model:
        asked.append({"name": name, **options})
        return tiny

    monkeypatch.setattr(Chat, "embedded", lambda: CHAT)
    monkeypatch.setattr("mwviz.engine.model.load_model", loaded)
    out = tmp_path / "one.jsonl"
    words = ["-o", str(out), "--harness", "none", "--count", "1", "--model", "small"]
    assert main([*words, "--adapter", "mine"]) == 0
    assert (asked[0]["name"], asked[0]["adapter"]) == ("small", "mine")
    assert f"{out}: 1 rollout, 6 calls, mean reward 0.00" in capsys.readouterr().out
    [one] = load(out).rollouts
    assert (one.id, one.calls[0].model) == ("none-0", tiny.name)
    assert main([*words, "--samples", "2"]) == 0
    two = load(out).rollouts
    assert [rollout.id for rollout in two] == ["none-0-0", "none-0-1"]
    first, other = (rollout.calls[0] for rollout in two)
    assert first.prompt_ids is not None
    np.testing.assert_array_equal(first.prompt_ids, other.prompt_ids)
    with pytest.raises(SystemExit):
        main([*words, "--adapter", "mine", "--expert"])
