from __future__ import annotations

import io
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mwviz
from mwviz.analysis import Analysis
from mwviz.cli import main
from mwviz.errors import MwvizError, TraceError
from mwviz.formats.mwviz1_writer import write
from mwviz.junctions import Junction
from mwviz.rollout import Call, Hole, Message, Part, Rollout, Usage
from mwviz.simulate import PRESETS, Preset, preset_named, simulate
from mwviz.simulate.listing import table
from tests.strategies import int_array

WORDS = "words/1"
"""Needs nothing installed, so sizes are the same everywhere."""
STEPS = 12
CALLS = tuple(f"k{step}" for step in range(STEPS))
PLACES = ("river", "town", "bridge", "museum", "harbour", "engine", "castle", "garden", "station")
SMALL: dict[str, dict[str, Any]] = {
    "claude-code-full": {"window": 400, "summary": 60},
    "claude-code-tail": {"window": 400, "summary": 60, "tail": 120},
    "opencode-prune": {"protect": 50, "at_least": 50},
    "opencode-compaction": {"window": 400, "summary": 60},
    "opencode-compaction-tail": {"window": 500, "summary": 60},
    "qwen-agent": {"window": 400},
    "codex": {"window": 400, "summary": 60},
    "tc-rag": {"observations": 200},
    "tc-rag-paper": {"observations": 200},
    "tc-rag-largest": {"observations": 200},
    "agentfold": {"summary": 30, "deep": 4},
    "agentfold-paper": {"over": 400, "summary": 60},
    "memexrl": {"over": 400, "summary": 60},
    "memexrl-paper": {"over": 850},
    "sliding-window": {"messages": 6},
    "resum": {"window": 500, "summary": 60},
    "mem1": {"summary": 60},
    "memagent": {"memory": 60},
    "context-folding": {"length": 3, "summary": 40},
    "streaming-llm": {"size": 200},
    "window": {"size": 200},
}
"""Options under which the presets act on the transcript below."""
KINDS: dict[str, list[tuple[int, str]]] = {
    "none": [],
    "claude-code-micro": [(call, "placeholder") for call in range(4, STEPS)],
    "claude-code-full": [(3, "summary"), (6, "summary"), (9, "summary")],
    "claude-code-tail": [(call, "summary_tail") for call in (3, 5, 7, 9, 11)],
    "opencode-prune": [(8, "placeholder")],
    "opencode-compaction": [(4, "summary"), (8, "summary")],
    "opencode-compaction-tail": [(5, "summary_tail"), (9, "summary_tail")],
    "qwen-agent": [
        (4, "placeholder"),
        (5, "placeholder"),
        (6, "placeholder"),
        (7, "drop"),
        (8, "restore"),
        (9, "placeholder"),
        (10, "placeholder"),
        (11, "drop"),
    ],
    "codex": [(4, "summary"), (7, "summary"), (10, "summary")],
    "tc-rag": [(call, "rewind") for call in range(5, STEPS)],
    "tc-rag-paper": [(call, "drop") for call in range(5, STEPS)],
    "tc-rag-largest": [(call, "drop") for call in range(5, STEPS)],
    "agentfold": [(call, "fold") for call in range(2, STEPS)],
    "agentfold-paper": [(4, "fold"), (7, "fold"), (10, "fold")],
    "memexrl": [(4, "summary"), (7, "summary"), (10, "summary")],
    "memexrl-paper": [(9, "placeholder"), (10, "placeholder"), (11, "restore")],
    "thinking-strip": [(4, "template_strip"), (8, "template_strip")],
    "sliding-window": [(call, "drop") for call in range(3, STEPS)],
    "resum": [(4, "summary"), (8, "summary")],
    "mem1": [(call, "summary_tail") for call in range(2, STEPS)],
    "memagent": [(call, "summary") for call in range(1, STEPS)],
    "context-folding": [(4, "fold"), (8, "fold")],
    "streaming-llm": [(call, "drop") for call in range(2, STEPS)],
    "window": [(call, "drop") for call in range(2, STEPS)],
}
LIMITS = {
    "claude-code-full": 320,
    "claude-code-tail": 320,
    "opencode-compaction": 400,
    "opencode-compaction-tail": 500,
    "qwen-agent": 400,
    "codex": 360,
    "agentfold-paper": 400,
    "memexrl": 400,
    "resum": 400,
    "streaming-llm": 204,
    "window": 200,
}
"""Tokens that no prompt may exceed."""
NOT_DERIVABLE = frozenset(
    {"codex", "tc-rag", "agentfold", "agentfold-paper", "context-folding", "thinking-strip"}
    | {"sliding-window", "qwen-agent"}
)
"""Presets whose kinds only the harness can tell: `fold`, a rewind with a note, ..."""


def said(role: str, text: str) -> Message:
    return Message(role, (Part("text", text),))


def prose(seed: int, words: int) -> str:
    return " ".join(
        f"{PLACES[(seed * 7 + at * 5) % 9]}{(seed * 31 + at * at) % 97}" for at in range(words)
    )


SYSTEM = said("system", "You look things up and answer.")
TASK = said("user", "Which river runs past the town of Skelling and how long is it?")


def act(step: int) -> Message:
    if step == STEPS - 1:
        return said("assistant", "Answer: the Amber, 310 kilometres.")
    parts = (
        Part("reasoning", f"Thought {step}: {prose(step + 100, 12)}"),
        Part("text", f"Step {step}."),
        Part("tool_call", json.dumps({"query": prose(step + 50, 4)}), "search", f"c{step}"),
    )
    return Message("assistant", parts)


def result(step: int) -> Message:
    return Message(
        "tool", (Part("tool_result", f"Result {step}: {prose(step, 40)}", id=f"c{step}"),)
    )


def more(step: int) -> Message:
    return said("user", f"Also look at point {step}: {prose(step + 200, 6)}.")


def agent(*, users: tuple[int, ...] = (3, 7)) -> Rollout:
    """Twelve recorded calls that only ever append; `users` ask again after those calls."""
    prompt, calls = [SYSTEM, TASK], []
    for step, name in enumerate(CALLS):
        call = Call(
            name,
            tuple(prompt),
            (act(step),),
            lineage="main",
            usage=Usage(prompt=10_000 - 500 * step),
            temperature=0.7,
            time=float(step),
        )
        calls.append(call)
        prompt += [act(step), result(step)]
        prompt += [more(step)] * (step in users)
    return Rollout("agent", tuple(calls), reward=1.0)


def under(name: str, rollout: Rollout | None = None, **options: Any) -> Rollout:
    chosen = options or SMALL.get(name, {})
    return simulate(rollout or agent(), name, tokenizer=WORDS, **chosen)


@cache
def made_by(name: str) -> Rollout:
    """What `under(name)` gives, made once."""
    return under(name)


@cache
def analysed(rollout: Rollout) -> Analysis:
    return Analysis(rollout, tokenizer=WORDS)


def junctions(rollout: Rollout) -> tuple[Junction, ...]:
    return analysed(rollout).junction_list


def kinds(rollout: Rollout) -> list[tuple[int, str]]:
    return [(junction.call, junction.kind) for junction in junctions(rollout)]


def written(rollout: Rollout) -> str:
    file = io.StringIO()
    write([rollout], file)
    return file.getvalue()


def named(message: Message) -> str:
    """A short name of a message of the transcript, or of what the simulator wrote."""
    if message.mark:
        return {"summary": "SUM", "placeholder": "stub", "reminder": "note"}[message.mark]
    known = {SYSTEM.content_key: "S", TASK.content_key: "U"}
    for step in range(STEPS):
        known |= {act(step).content_key: f"a{step}", result(step).content_key: f"r{step}"}
        known[more(step).content_key] = f"u{step}"
    return known.get(message.content_key, "?")


def shape(rollout: Rollout, call: int) -> str:
    return " ".join(named(message) for message in rollout.calls[call].prompt or ())


every_preset = pytest.mark.parametrize("preset", PRESETS, ids=lambda preset: preset.name)


@every_preset
def test_every_preset_makes_the_junctions_it_promises(preset: Preset) -> None:
    found = junctions(made_by(preset.name))
    assert {junction.kind for junction in found} <= set(preset.kinds)
    assert [(junction.call, junction.kind) for junction in found] == KINDS[preset.name]
    assert all(junction.evidence == "recorded" for junction in found)


@every_preset
def test_the_change_alone_shows_the_kind_where_it_can(preset: Preset) -> None:
    if preset.name in NOT_DERIVABLE:
        return
    made = made_by(preset.name)
    silent = replace(made, calls=tuple(replace(call, hints=()) for call in made.calls))
    assert kinds(silent) == KINDS[preset.name]


@every_preset
def test_the_same_input_gives_the_same_file(preset: Preset) -> None:
    assert written(under(preset.name)) == written(made_by(preset.name))


@every_preset
def test_what_is_written_reads_back_equal(preset: Preset) -> None:
    made = made_by(preset.name)
    (back,) = mwviz.load(written(made).encode()).rollouts
    assert (back.id, back.semantics, back.meta) == (made.id, made.semantics, made.meta)
    assert (back.warnings, back.reward) == (made.warnings, 1.0)
    for old, new in zip(made.calls, back.calls, strict=True):
        assert (old.id, old.lineage, old.hints, old.content) == (
            new.id,
            new.lineage,
            new.hints,
            new.content,
        )
        assert old.tokens == new.tokens
        if old.prompt_ids is not None and new.prompt_ids is not None:
            assert np.array_equal(old.prompt_ids, new.prompt_ids)
        for left, right in ((old.prompt, new.prompt), (old.completion, new.completion)):
            assert left is None or [(m.content_key, m.mark) for m in left] == [
                (m.content_key, m.mark) for m in right or ()
            ]
    assert kinds(back) == kinds(made)


@every_preset
def test_recorded_completions_are_kept_and_nothing_measured_on_them(preset: Preset) -> None:
    source, made = agent(), made_by(preset.name)
    assert [call.id for call in made.calls] == list(CALLS)
    sampled = analysed(source).encoding
    again = analysed(made).encoding
    for call, old, new in zip(made.calls, sampled.calls, again.calls, strict=True):
        assert len(old.completion) == len(new.completion)
        assert call.logprobs is None
        assert call.usage is None
        assert call.temperature == 0.7
    if preset.name not in ("streaming-llm", "window"):
        assert [call.completion for call in made.calls] == [
            call.completion for call in source.calls
        ]


@every_preset
def test_off_policy_calls_are_those_with_another_context(preset: Preset) -> None:
    source, made = analysed(agent()).encoding, made_by(preset.name)
    changed = [
        call.id
        for call, old, new in zip(
            made.calls, source.calls, analysed(made).encoding.calls, strict=True
        )
        if old.prompt_length != new.prompt_length
    ]
    assert json.loads(made.meta["off_policy"]) == changed
    assert made.meta["simulated"] == preset.name
    assert [call.id for call in made.calls if call.content == "rebuilt"] == changed
    assert any("off-policy" in warning for warning in made.warnings) == bool(changed)


@every_preset
def test_every_message_is_recorded_or_marked(preset: Preset) -> None:
    made = made_by(preset.name)
    strange = {named(message) for call in made.calls for message in call.prompt or ()} & {"?"}
    assert strange == ({"?"} if preset.name == "thinking-strip" else set())


@every_preset
def test_no_preset_acts_on_a_short_rollout_by_default_unless_it_acts_at_every_step(
    preset: Preset,
) -> None:
    made = simulate(agent(users=()), preset.name, tokenizer=WORDS)
    each_step = {"claude-code-micro", "agentfold", "mem1", "memagent", "context-folding"}
    each_step |= {"sliding-window", "streaming-llm", "window"}
    assert bool(kinds(made)) == (preset.name in each_step)


@pytest.mark.parametrize("name", LIMITS)
def test_no_prompt_exceeds_the_limit(name: str) -> None:
    sizes = analysed(made_by(name)).tree.prompt_length
    assert sizes.max() <= LIMITS[name]
    assert not any("above the limit" in warning for warning in made_by(name).warnings)


def test_a_limit_that_cannot_be_kept_is_said() -> None:
    made = under("claude-code-full", window=30, at=1.0)
    assert any("stay above the limit" in warning for warning in made.warnings)


def test_a_preset_that_changed_nothing_says_how_large_the_prompts_are() -> None:
    made = simulate(agent(), "codex", tokenizer=WORDS)
    largest = int(analysed(made).tree.prompt_length.max())
    assert f"simulated: codex changed nothing; the largest prompt has {largest:,} tokens" in (
        made.warnings
    )


@pytest.mark.parametrize(
    ("name", "call", "expected"),
    [
        ("none", 3, "S U a0 r0 a1 r1 a2 r2"),
        ("claude-code-micro", 5, "S U a0 stub a1 stub a2 r2 a3 r3 u3 a4 r4"),
        ("claude-code-full", 3, "S SUM"),
        ("claude-code-full", 5, "S SUM a3 r3 u3 a4 r4"),
        ("claude-code-tail", 3, "S SUM a2 r2"),
        ("claude-code-tail", 5, "S SUM u3 a4 r4"),
        ("opencode-prune", 7, "S U a0 r0 a1 r1 a2 r2 a3 r3 u3 a4 r4 a5 r5 a6 r6"),
        (
            "opencode-prune",
            8,
            "S U a0 stub a1 stub a2 stub a3 r3 u3 a4 r4 a5 r5 a6 r6 a7 r7 u7",
        ),
        ("opencode-compaction", 4, "S SUM u3"),
        ("codex", 4, "S U u3 SUM"),
        ("codex", 10, "S U u3 u7 SUM"),
        ("tc-rag", 5, "S U a0 r0 a1 r1 a2 r2 a3 r3 u3 note"),
        ("tc-rag-paper", 6, "S U a0 a1 a2 r2 a3 r3 u3 a4 r4 a5 r5"),
        ("agentfold", 2, "S U SUM a1 r1"),
        ("agentfold", 4, "S U SUM SUM SUM a3 r3 u3"),
        ("agentfold", 5, "S U SUM a4 r4"),
        ("agentfold-paper", 4, "S U SUM a3 r3 u3"),
        ("memexrl", 4, "S U SUM u3"),
        ("memexrl", 6, "S U SUM u3 a4 r4 a5 r5 r0"),
        (
            "memexrl-paper",
            9,
            "S U a0 stub a1 stub a2 stub a3 stub u3 a4 r4 a5 r5 a6 r6 a7 r7 u7 a8 r8",
        ),
        ("sliding-window", 4, "S r1 a2 r2 a3 r3 u3"),
        ("resum", 4, "S U SUM u3"),
        ("mem1", 3, "S U SUM a2 r2"),
        ("memagent", 3, "S U SUM r2"),
        ("context-folding", 4, "S U a0 r0 SUM"),
        ("context-folding", 5, "S U a0 r0 SUM a4 r4"),
    ],
)
def test_contexts_are_what_the_rule_says(name: str, call: int, expected: str) -> None:
    assert shape(made_by(name), call) == expected


def test_claude_code_tail_is_claude_code_full_with_a_tail() -> None:
    left = under("claude-code-full", window=400, tail=120)
    right = under("claude-code-tail", window=400, tail=120)
    assert [shape(left, c) for c in range(STEPS)] == [shape(right, c) for c in range(STEPS)]


def test_the_summarys_own_call_is_logged_on_demand() -> None:
    made = under("claude-code-full", window=400, summary=60, author=True)
    call = next(call for call in made.calls if call.id == "k3-summary")
    (summary,) = [m for m in made.calls[4].prompt or () if m.mark == "summary"]
    (sampled,) = call.completion or ()
    assert made.calls[4].id == "k3"
    assert (sampled.role, sampled.text) == ("assistant", summary.text)
    assert {kind for _, kind in kinds(made)} == {"summary"}
    assert call.id in json.loads(made.meta["off_policy"])


def test_an_external_summariser_is_an_agent_of_its_own() -> None:
    tree = analysed(under("resum", window=500, summary=60, author=True)).tree
    assert tree.lineages == ("main", "summariser")
    assert tree.lineages[tree.main_lineage] == "main"


def test_a_summary_is_no_longer_than_asked_and_copies_no_run_of_text() -> None:
    made = under("agentfold-paper")
    analysis = analysed(made)
    for call in made.calls:
        for message in call.prompt or ():
            if message.mark == "summary":
                assert message.text.startswith("Simulated summary:")
    for junction in analysis.junction_list:
        text = analysis.decoder.text(analysis.tree.ids[junction.retained])
        assert "Simulated" not in text
    for span in (s for call in analysis.encoding.calls for s in call.spans if s.kind == "summary"):
        assert span.end - span.start <= 60


def test_text_comes_back_under_qwen_agent() -> None:
    made = under("qwen-agent")
    assert "stub" in shape(made, 7)
    assert {"drop", "placeholder", "restore"} <= {kind for _, kind in kinds(made)}
    seen = [shape(made, call).split() for call in range(STEPS)]
    gone = {(c, f"r{s}") for c in range(STEPS) for s in range(c) if f"r{s}" not in seen[c]}
    assert any(name in seen[later] for call, name in gone for later in range(call, STEPS))


def test_qwen_agent_cuts_results_in_the_middle_on_demand() -> None:
    made = under("qwen-agent", window=400, cut=12)
    cut = [m for call in made.calls for m in call.prompt or () if m.mark == "placeholder"]
    assert cut
    assert all(m.text.startswith("Result") and m.text != "omit" for m in cut)
    assert analysed(made).tree.prompt_length.max() <= 400


def test_observations_are_popped_when_told() -> None:
    made = under("tc-rag-paper", at=(3,))
    assert kinds(made) == [(3, "drop")]
    assert shape(made, 3) == "S U a0 a1 r1 a2 r2"


def test_the_largest_observation_is_popped() -> None:
    source = agent(users=())
    long = Message("tool", (Part("tool_result", prose(1, 90), id="c1"),))
    calls = tuple(
        replace(
            call,
            prompt=tuple(
                long if m.content_key == result(1).content_key else m for m in call.prompt or ()
            ),
        )
        for call in source.calls
    )
    made = under("tc-rag-largest", replace(source, calls=calls), observations=230)
    assert shape(made, 4) == "S U a0 r0 a1 a2 r2 a3 r3"


def test_everything_is_restored_before_the_answer() -> None:
    made = under("memexrl-paper")
    assert made.calls[-1].prompt == agent().calls[-1].prompt
    read = shape(under("memexrl-paper", over=850, retrieve=1), 10).split()
    assert (read[3], read[-1]) == ("stub", "r0")


def test_reasoning_is_stripped_at_each_turn_of_the_person_only() -> None:
    made = under("thinking-strip")
    for call, turns in ((3, 0), (4, 4), (7, 4), (8, 8)):
        thoughts = [
            any(part.kind == "reasoning" for part in message.parts)
            for message in made.calls[call].prompt or ()
            if message.role == "assistant"
        ]
        assert thoughts == [False] * turns + [True] * (call - turns)


def test_deep_folds_merge_the_summaries() -> None:
    counts = [shape(made_by("agentfold"), call).split().count("SUM") for call in range(STEPS)]
    assert counts == [0, 0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1]


def test_cache_presets_keep_sinks_and_newest_tokens_at_original_positions() -> None:
    source, made = analysed(agent()).encoding, under("streaming-llm")
    assert made.semantics == "kv_orig"
    for old, call in zip(source.calls, made.calls, strict=True):
        size = old.prompt_length
        kept = [*range(min(4, size)), *range(max(4, size - 200), size)]
        assert call.prompt_ids is not None
        assert call.completion_ids is not None
        assert np.array_equal(call.prompt_ids, old.context[kept])
        assert np.array_equal(call.completion_ids, old.completion)


def test_the_cache_evicts_while_decoding_on_demand() -> None:
    made = under("window", size=50, every=1)
    sizes = [
        (len(call.prompt_ids), len(call.completion_ids))
        for call in made.calls
        if call.prompt_ids is not None and call.completion_ids is not None
    ]
    assert {decoded for _, decoded in sizes} == {1}
    assert [kept for kept, _ in sizes] == [*range(33, 50), *[50] * (len(sizes) - 17)]
    joined = [int(i) for call in made.calls for i in call.completion_ids or ()]
    sampled = [int(i) for call in analysed(agent()).encoding.calls for i in call.completion]
    assert joined == sampled


def test_recorded_ids_are_what_a_cache_evicts() -> None:
    calls = (
        Call("a", prompt_ids=int_array([1, 2, 3, 4, 5]), completion_ids=int_array([6, 7])),
        Call("b", prompt_ids=int_array([*range(1, 10)]), completion_ids=int_array([10])),
    )
    made = simulate(Rollout("ids", calls, tokenizer="own"), "streaming-llm", sinks=1, size=3)
    assert [call.prompt_ids.tolist() for call in made.calls if call.prompt_ids is not None] == [
        [1, 3, 4, 5],
        [1, 7, 8, 9],
    ]
    assert (made.tokenizer, made.calls[0].tokens) == ("own", "recorded")


def test_the_recorded_harness_is_undone_first() -> None:
    full = agent()
    for name in ("claude-code-tail", "claude-code-micro", "memexrl-paper", "thinking-strip"):
        again = under("none", under(name))
        assert [shape(again, call) for call in range(STEPS)][-1] == shape(full, STEPS - 1), name
        assert any("undone: " in warning for warning in again.warnings)
    once = under("none", under("claude-code-full"))
    assert [named(m) for m in once.calls[-1].completion or ()] == ["a11"]
    assert "SUM" not in shape(once, STEPS - 1)


def test_a_summary_without_a_mark_is_undone_too() -> None:
    made = under("claude-code-full")
    plain = tuple(
        replace(call, hints=(), prompt=tuple(replace(m, mark=None) for m in call.prompt or ()))
        for call in made.calls
    )
    again = under("none", replace(made, calls=plain))
    assert "?" not in shape(again, STEPS - 1)


def test_a_prompt_sampled_again_counts_once() -> None:
    source = agent(users=())
    failed = replace(source.calls[2], id="failed", completion=(said("assistant", "Hm."),))
    calls = (*source.calls[:2], failed, *source.calls[2:])
    made = under("none", replace(source, calls=calls))
    assert [call.id for call in made.calls] == list(CALLS)
    assert any("sampled again" in warning for warning in made.warnings)
    assert shape(made, STEPS - 1) == shape(source, STEPS - 1)


def test_other_agents_keep_their_calls_or_are_left_out_with_a_warning() -> None:
    source = agent()
    other = (said("system", "You check facts."), said("user", "Is it 310 kilometres?"))
    talks = Call("s0", other, (said("assistant", "Yes."),), lineage="checker")
    blind = Call("s1", prompt_ids=int_array([1, 2]), lineage="blind")
    calls = (*source.calls[:5], talks, blind, *source.calls[5:])
    made = under("claude-code-full", replace(source, calls=calls))
    assert [call.id for call in made.calls] == [*CALLS[:5], "s0", *CALLS[5:]]
    assert made.calls[5].prompt == other
    assert "left out, without messages: 1 call of other agents" in made.warnings
    assert kinds(made) == [(call + (call > 4), kind) for call, kind in KINDS["claude-code-full"]]


def test_holes_stay_where_their_place_is_still_shown() -> None:
    source = agent()
    first = replace(SYSTEM, id="sys")
    holed = replace(
        source.calls[0],
        prompt=(first, TASK),
        holes=(Hole("tools", after="sys"), Hole("gone", after="other")),
        content="partial",
    )
    made = under("none", replace(source, calls=(holed, *source.calls[1:])))
    assert [hole.why for hole in made.calls[0].holes] == ["tools"]
    assert made.calls[0].content == "partial"


def test_a_main_call_without_messages_is_refused_by_name() -> None:
    calls = (Call("bare", prompt_ids=int_array([1, 2]), completion_ids=int_array([3])),)
    with pytest.raises(TraceError, match="call 'bare' has no messages"):
        simulate(Rollout("r", calls), "codex")


def test_a_rollout_without_calls_stays_one() -> None:
    assert under("codex", Rollout("empty", ())).calls == ()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("codx", {}, "no preset 'codx'; there are: none, claude-code-micro"),
        ("codex", {"windows": 1}, "no option 'windows'; it has: window, at"),
        ("codex", {"window": "many"}, "window is 'many', expected a whole number"),
        ("codex", {"window": -1}, "expected a number from 0 on"),
        ("codex", {"author": 1}, "author is 1, expected true or false"),
        ("tc-rag", {"order": "random"}, "expected one of lifo, fifo, largest"),
    ],
)
def test_unknown_names_and_values_list_what_is_valid(
    name: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(MwvizError, match=message):
        simulate(agent(), name, **options)


def test_settings_are_read_by_the_type_of_their_default() -> None:
    settings = ["window=1_000", "at=0.5", "author=true"]
    assert preset_named("codex").parsed(settings) == {"window": 1000, "at": 0.5, "author": True}
    assert preset_named("tc-rag").parsed(["at=2,5", "order=fifo"]) == {
        "at": (2, 5),
        "order": "fifo",
    }
    with pytest.raises(MwvizError, match="expected NAME=VALUE"):
        preset_named("codex").parsed(["window"])


def test_the_command_writes_a_log_that_inspect_reads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "run.jsonl", tmp_path / "out.jsonl"
    write([agent()], source)
    arguments = ["simulate", "claude-code-full", str(source), "-o", str(out)]
    assert main([*arguments, "--set", "window=400", "--tokenizer", WORDS]) == 0
    assert "off-policy" in capsys.readouterr().err
    assert main(["inspect", str(out), "--json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)["rollouts"]
    assert shown["id"] == "agent.claude-code-full"
    assert {junction["kind"] for junction in shown["junctions"]} == {"summary"}
    assert main(["simulate", "codex", str(source)]) == 2
    assert "-o OUT" in capsys.readouterr().err


def test_the_list_names_every_preset_with_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--list"]) == 0
    shown = capsys.readouterr().out
    for preset in PRESETS:
        assert f"\n{preset.name}\n  {preset.rule}\n" in f"\n{shown}"
        assert all(f"  {o.name}=" in shown and o.about in shown for o in preset.options)


def test_the_table_of_the_documentation_is_current() -> None:
    page = (Path(__file__).parents[1] / "docs" / "simulate.md").read_text()
    assert table() in page, "paste the output of: python -m mwviz.simulate.listing"
