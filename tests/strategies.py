"""Generated rollouts: contexts are evicted, restored, reordered, quoted and sampled anew."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from mwviz.rollout import Call, Rollout, Semantics
from mwviz.semantics import Taken
from mwviz.tokens import CallTokens, Encoding

Draw = st.DrawFn


def int_array(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def encoded(calls: list[tuple[str | None, list[int], list[int]]]) -> tuple[Rollout, Encoding]:
    """A rollout and its encoding from (lineage, prompt ids, completion ids) of each call."""
    made = tuple(
        Call(
            id=f"c{index}",
            lineage=lineage,
            prompt_ids=int_array(prompt),
            completion_ids=int_array(completion),
        )
        for index, (lineage, prompt, completion) in enumerate(calls)
    )
    tokens = tuple(
        CallTokens((int_array(prompt),), int_array(completion), ())
        for _, prompt, completion in calls
    )
    return Rollout("generated", made), Encoding(tokens, "unknown", "recorded")


def treated(rollout: Rollout, word: Taken) -> Rollout:
    """The rollout with all junctions treated one way, or every second one the other way."""
    if word != "mixed":
        return replace(rollout, semantics=word)
    words: tuple[Semantics, ...] = ("kv_orig", "re_prefill")
    calls = tuple(replace(call, semantics=words[i % 2]) for i, call in enumerate(rollout.calls))
    return replace(rollout, calls=calls)


def edit_units(draw: Draw, prompt: list[int], gone: list[int], new: int) -> None:
    """Change a prompt in place as a harness might, or leave it."""
    at = draw(st.integers(0, len(prompt)))
    match draw(st.sampled_from(["none", "none", "drop", "insert", "restore", "move", "cut"])):
        case "drop":
            del prompt[at : at + draw(st.integers(1, 3))]
        case "insert":
            prompt.insert(at, new)
        case "restore":
            prompt.insert(at, draw(st.sampled_from(gone)))
        case "move" if prompt:
            prompt.insert(draw(st.integers(0, len(prompt) - 1)), prompt.pop(at - 1))
        case "cut":
            del prompt[at:]


@st.composite
def unit_calls(draw: Draw) -> list[tuple[str | None, list[int], list[int]]]:
    """Calls in which every id stands for one unit and occurs at most once in a context."""
    fresh = iter(range(10_000))
    agents = draw(st.integers(1, 2))
    contexts: list[list[int]] = [[next(fresh)] for _ in range(agents)]
    everything: list[int] = [unit for context in contexts for unit in context]
    named = draw(st.booleans())
    calls: list[tuple[str | None, list[int], list[int]]] = []
    for _ in range(draw(st.integers(1, 7))):
        agent = draw(st.integers(0, agents - 1))
        prompt = list(contexts[agent])
        gone = [unit for unit in everything if unit not in prompt]
        edit_units(draw, prompt, gone or [next(fresh)], next(fresh))
        completion = [next(fresh) for _ in range(draw(st.integers(0, 3)))]
        calls.append((f"agent{agent}" if named else None, prompt, completion))
        again = draw(st.booleans()) and draw(st.booleans())
        if again:
            kept = completion[: draw(st.integers(0, len(completion)))]
            completion = kept + [next(fresh) for _ in range(draw(st.integers(0, 2)))]
            calls.append((f"agent{agent}" if named else None, list(prompt), completion))
        added = [next(fresh) for _ in range(draw(st.integers(0, 2)))]
        contexts[agent] = prompt + completion + added
        everything += [unit for unit in prompt + completion + added if unit not in everything]
    return calls


@st.composite
def token_calls(draw: Draw, *, alphabet: int) -> list[tuple[str | None, list[int], list[int]]]:
    """Calls of ordinary tokens: ids repeat, most messages are longer than the shortest run."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def text(low: int, high: int) -> list[int]:
        size = draw(st.integers(low, high))
        return [int(token) for token in random.integers(0, alphabet, size)]

    context = [text(5, 20)]
    gone: list[list[int]] = []
    calls: list[tuple[str | None, list[int], list[int]]] = []
    for _ in range(draw(st.integers(1, 6))):
        edit = draw(st.sampled_from(["none", "drop", "stub", "restore", "quote", "fold"]))
        if edit in {"drop", "stub"} and len(context) > 1:
            at = draw(st.integers(1, len(context) - 1))
            gone.append(context.pop(at))
            if edit == "stub":
                context.insert(at, text(1, 4))
        elif edit == "restore" and gone:
            context.insert(draw(st.integers(1, len(context))), draw(st.sampled_from(gone)))
        elif edit == "quote" and gone:
            whole = draw(st.sampled_from(gone))
            context.append(text(0, 3) + whole[len(whole) // 4 :])
        elif edit == "fold" and len(context) > 2:
            gone += context[1:-1]
            context = [context[0], text(3, 12), context[-1]]
        prompt = [token for message in context for token in message]
        completion = text(0, 12)
        calls.append(("main", prompt, completion))
        context = [*context, completion, text(0, 15)]
        context = [message for message in context if message]
    return calls
