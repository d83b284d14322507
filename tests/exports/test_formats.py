"""Exports that other tools read: opened again, every context and junction is what it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mwviz
from mwviz.cli import main
from mwviz.errors import TraceError
from mwviz.exports.atif import trajectories
from mwviz.exports.files import write_calls
from mwviz.exports.graph import trace_record
from mwviz.exports.kinds import export
from mwviz.formats.mwviz1_writer import write
from mwviz.rollout import Call, Hole, Message, Part, Rollout, Span
from mwviz.trace import Trace, load

DATA = Path(__file__).parents[1] / "data"
TRACES = {
    "ids only": DATA / "cases" / "vector-3-summary-tail" / "calls.jsonl",
    "ids, rewind": DATA / "cases" / "vector-4-rewind" / "calls.jsonl",
    "ids, spans and logprobs": Path(mwviz.__file__).parent / "demo" / "busy.jsonl",
    "chat with tools": DATA / "formats" / "openai-chat" / "log.jsonl",
    "blocks": DATA / "formats" / "anthropic" / "log.jsonl",
    "ids and raw prompts": DATA / "formats" / "openai-text" / "log.jsonl",
}
STEPS = ("chat with tools", "ids, spans and logprobs")
"""Traces whose messages ATIF's steps can hold."""


def contexts(trace: Trace) -> list[list[list[int]]]:
    """Prompt and completion of every call of every rollout, as token ids."""
    found = []
    for analysis in trace.analyses:
        for call in analysis.encoding.calls:
            at = call.prompt_length
            found.append([call.context[:at].tolist(), call.context[at:].tolist()])
    return found


def kinds(trace: Trace) -> list[str]:
    return [j.kind for analysis in trace.analyses for j in analysis.junction_list]


def test_a_part_never_takes_the_place_of_what_is_converted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, whole = tmp_path / "log.jsonl", tmp_path / "run.trajectory.json"
    asked = [[{"role": "user", "content": f"task {at}"}] for at in range(3)]
    lines = ({"lineage": "main", "messages": told, "completion": "yes"} for told in asked)
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert main(["convert", str(log), str(whole), "--as", "atif"]) == 0
    source = json.loads(whole.read_text())["continued_trajectory_ref"]
    before = (tmp_path / source).read_bytes()
    capsys.readouterr()
    assert main(["convert", str(tmp_path / source), str(whole), "--as", "atif"]) == 2
    assert f"{source}: is what is converted, and would be lost" in capsys.readouterr().err
    assert (tmp_path / source).read_bytes() == before


@pytest.mark.parametrize("kind", ["calls", "verifiers"])
@pytest.mark.parametrize("name", TRACES)
def test_an_export_opens_with_every_context(name: str, kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert main(["convert", str(TRACES[name]), str(out), "--as", kind]) == 0
    before, after = load(TRACES[name]), load(out)
    assert after.damage == ()
    assert after.format == kind
    assert contexts(after) == contexts(before)
    for left, right in zip(before.rollouts, after.rollouts, strict=True):
        assert right.id == left.id
        for one, other in zip(left.calls, right.calls, strict=True):
            assert (one.logprobs is None) == (other.logprobs is None)
            if one.logprobs is not None and other.logprobs is not None:
                np.testing.assert_array_equal(one.logprobs, other.logprobs)
            assert (one.temperature, one.finish) == (other.temperature, other.finish)
            assert one.usage == other.usage
            assert (one.prompt_ids is None) == (other.prompt_ids is None)


@pytest.mark.parametrize("name", ["chat with tools", "ids, spans and logprobs"])
def test_a_graph_stores_what_calls_share_once(name: str) -> None:
    (rollout,) = load(TRACES[name]).rollouts
    record = trace_record(rollout)
    nodes: Any = record["nodes"]
    assert len(nodes) < sum(len(c.prompt or c.spans or ()) + 1 for c in rollout.calls)
    tokens = sum(len(node["token_ids"]) for node in nodes)
    (analysis,) = load(TRACES[name]).analyses
    if rollout.calls[0].prompt_ids is not None:
        assert analysis.tree.size <= tokens <= 1.3 * analysis.tree.size


@pytest.mark.parametrize("name", STEPS)
def test_a_trajectory_opens_with_every_context(name: str, tmp_path: Path) -> None:
    out = tmp_path / "run.trajectory.json"
    assert main(["convert", str(TRACES[name]), str(out), "--as", "atif"]) == 0
    before, after = load(TRACES[name]), load(out)
    assert after.damage == ()
    assert contexts(after) == contexts(before)
    junctions = [j for analysis in before.analyses for j in analysis.junction_list]
    evictions = sum(junction.is_eviction for junction in junctions)
    parts = sorted(path.name for path in tmp_path.iterdir())
    assert len(parts) >= evictions + 1
    document = json.loads(out.read_text())
    assert document["continued_trajectory_ref"] == "run.trajectory.cont-1.json"


def test_copied_context_is_marked_and_new_context_is_not() -> None:
    (rollout,) = load(TRACES["chat with tools"]).rollouts
    first, second = trajectories(rollout, "run").values()
    steps: Any = [*first["steps"], *second["steps"]]  # type: ignore[misc]
    copied = [step for step in steps if step.get("is_copied_context")]
    assert copied
    assert not any(step.get("is_copied_context") for step in first["steps"])  # type: ignore[union-attr]
    calls = [step for step in steps if "llm_call_count" in step]
    assert len(calls) == len(rollout.calls)


def message(role: str, *parts: Part) -> Message:
    return Message(role, parts)


def test_what_a_format_cannot_hold_is_named(tmp_path: Path) -> None:
    ask, reply = message("user", Part("text", "q")), message("assistant", Part("text", "a"))
    plain = Call("0", prompt=(ask,), completion=(reply,), lineage="x")
    ids = Call("1", prompt_ids=np.array([1], np.int32), completion_ids=np.array([2], np.int32))
    with pytest.raises(TraceError, match="1 of 2 calls have token ids"):
        trace_record(Rollout("r", (plain, ids)))
    with pytest.raises(TraceError, match="no messages are recorded"):
        trajectories(Rollout("r", (ids,)), "run")
    thought = message("assistant", Part("reasoning", "hm"))
    two = Call("0", prompt=(ask,), completion=(thought, reply))
    with pytest.raises(TraceError, match="its reply is 2 messages"):
        trace_record(Rollout("r", (two,)))
    picture = message("user", Part("image", "", name="image/png"))
    with pytest.raises(TraceError, match="a step cannot hold a message of image"):
        trajectories(Rollout("r", (Call("0", prompt=(picture,)),)), "run")
    trace = str(TRACES["chat with tools"])
    assert main(["convert", trace, str(tmp_path / "run.jsonl"), "--as", "atif"]) == 2


def test_a_graph_keeps_the_generation_prompt_with_the_reply() -> None:
    def call(name: str, prompt: list[int], reply: list[int], ends: list[int]) -> Call:
        starts = [0, *ends[:-1]]
        spans = [Span(a, b, f"m{a}", "user", "") for a, b in zip(starts, ends, strict=True)]
        return Call(
            name,
            prompt_ids=np.array(prompt, np.int32),
            completion_ids=np.array(reply, np.int32),
            spans=tuple(spans),
        )

    first = call("0", [1, 2, 90], [7, 8], [2])
    second = call("1", [1, 2, 90, 7, 8, 99, 3, 90], [9], [2, 6, 7])
    nodes: Any = trace_record(Rollout("r", (first, second)))["nodes"]
    assert [node["token_ids"] for node in nodes] == [[1, 2], [90, 7, 8], [99], [3], [90, 9]]
    assert [node["mask"] for node in nodes][1] == [False, True, True]
    assert [node["parent"] for node in nodes] == [None, 0, 1, 2, 3]


def test_a_reply_that_was_not_made_here_is_copied_context() -> None:
    shown = message("user", Part("text", "2+2")), message("assistant", Part("text", "4"))
    asked = (*shown, message("user", Part("text", "3+3")))
    reply = (message("assistant", Part("text", "6")),)
    (document,) = trajectories(Rollout("r", (Call("0", asked, reply),)), "run").values()
    steps: Any = document["steps"]
    assert [step.get("is_copied_context", False) for step in steps] == [False, True, False, False]


def delegated() -> Rollout:
    """A run whose second call is by a sub-agent, whose context is replaced once."""

    def call(name: str, lineage: str, asked: list[str], reply: str) -> Call:
        prompt = tuple(message("user", Part("text", text)) for text in asked)
        said = (message("assistant", Part("text", reply)),)
        return Call(name, prompt, said, lineage=lineage, finish="stop")

    return Rollout(
        "r",
        (
            call("0", "main", ["Find both."], "I delegate."),
            call("1", "scout", ["Look here."], "Nothing."),
            call("2", "scout", ["Start anew.", "Look there."], "A boat."),
            call("3", "main", ["Find both.", "It is a boat."], "Thanks."),
        ),
    )


def test_sub_agents_have_trajectories_of_their_own(tmp_path: Path) -> None:
    own, out = tmp_path / "own.jsonl", tmp_path / "run.trajectory.json"
    write((delegated(),), own)
    assert export(load(own), out, "atif") == []
    assert sorted(path.name for path in tmp_path.glob("run.*")) == [
        "run.trajectory.cont-1.json",
        "run.trajectory.json",
        "run.trajectory.sub-agent-1.cont-1.json",
        "run.trajectory.sub-agent-1.json",
    ]
    (step,) = [s for s in json.loads(out.read_text())["steps"] if s["source"] == "agent"]
    (result,) = step["observation"]["results"]
    (reference,) = result["subagent_trajectory_ref"]
    assert reference == {
        "session_id": "scout",
        "trajectory_path": "run.trajectory.sub-agent-1.json",
    }
    after = load(out)
    assert after.damage == ()
    said = {c.completion[0].text: c.lineage for c in after.rollouts[0].calls if c.completion}
    assert said == {
        "I delegate.": "main",
        "Nothing.": "scout",
        "A boat.": "scout",
        "Thanks.": "main",
    }


def test_the_file_that_is_converted_is_not_overwritten(tmp_path: Path) -> None:
    own = tmp_path / "own.jsonl"
    write((delegated(),), own)
    before = own.read_bytes()
    for kind in ("calls", "mwviz/1"):
        assert main(["convert", str(own), str(own), "--as", kind]) == 2
    assert own.read_bytes() == before


def test_a_call_log_says_what_is_not_exact(tmp_path: Path) -> None:
    ask, reply = message("user", Part("text", "q")), message("assistant", Part("text", "a"))
    hole = Hole("the system prompt", tokens=900)
    call = Call("0", (ask,), (reply,), content="partial", holes=(hole,))
    write_calls((Rollout("r", (call,)),), tmp_path / "calls.jsonl")
    (after,) = load(tmp_path / "calls.jsonl").rollouts[0].calls
    assert (after.content, after.holes) == ("partial", (hole,))


def test_what_an_export_loses_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ask, reply = message("user", Part("text", "q")), message("assistant", Part("text", "a"))
    opaque = message("assistant", Part("reasoning", "", name="encrypted"), Part("text", "a"))
    whole = Call("0", (ask,), (reply,))
    failed = Call("1", (ask,), finish="error")
    assert list(told(tmp_path, "verifiers", whole)) == []
    assert told(tmp_path, "verifiers", whole, failed) == [
        "it opens again with 1 of 2 calls (1 failed request)"
    ]
    (sentence,) = told(tmp_path, "calls", whole, Call("1", (ask,), (opaque,)))
    assert sentence.startswith("messages are not the same")
    assert sentence.endswith("in 1 of 2 calls when it is opened again; the first is '1'")
    (sentence,) = told(tmp_path, "verifiers", Call("0", (ask,), (reply,), content="rebuilt"))
    assert sentence.startswith("what was rebuilt or partial passes for exact in 1 of 1 calls")
    out = tmp_path / "out.jsonl"
    assert main(["convert", str(TRACES["ids only"]), str(out), "--as", "verifiers"]) == 0
    assert "when it is opened again" not in capsys.readouterr().err


def told(folder: Path, kind: str, *calls: Call) -> list[str]:
    own = folder / "own.jsonl"
    write((Rollout("r", calls),), own)
    return export(load(own), folder / "out.jsonl", kind)
