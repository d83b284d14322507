from __future__ import annotations

import numpy as np
import pytest

from mwviz.junctions import Junction, find_junctions
from mwviz.rollout import Call, Hint, Mark, Message, Part, Rollout, Span, Usage
from mwviz.tokens import CallTokens, Encoding
from mwviz.tree import build_tree
from tests.strategies import int_array

Text = tuple[str, str]
"""Role and text; `summary!` as role marks a summary, `think:` a text with reasoning before `|`."""
SYSTEM = ("system", "You search a library and answer.")
ASK = ("user", "Which river runs past the town of Skelling?")
ACT1 = ("assistant", "Note: nothing yet. Search: Skelling river")
OUT1 = ("tool", "[Skelling] Skelling is a town on the Amber River, founded in 1625.")
ACT2 = ("assistant", "Note: Amber River. Search: Amber River length")
OUT2 = ("tool", "[Amber River] The Amber River is 310 kilometres long and passes three towns.")
STUB = ("tool", "[cleared]")
REQUEST = ("user", "Your context is full. Summarise what you found.")
SUMMARY = ("assistant", "The town of Skelling lies on the Amber River.")


def message(text: Text) -> Message:
    role, content = text
    mark: Mark | None = "summary" if role == "summary!" else None
    role = role.removesuffix("!").replace("summary", "user")
    if content.startswith("think:"):
        thought, answer = content.removeprefix("think:").split("|")
        parts: tuple[Part, ...] = (Part("reasoning", thought), Part("text", answer))
    else:
        parts = (Part("text", content),)
    return Message(role, parts, mark=mark)


def junctions(
    *calls: tuple[list[Text], Text], hints: tuple[str, ...] = (), lineage: str | None = None
) -> tuple[Junction, ...]:
    """Junctions of a message log; `hints` are those of the last call."""
    made, tokens = [], []
    for index, (prompt, completion) in enumerate(calls):
        messages = [message(text) for text in prompt]
        answer = message(completion)
        last = index == len(calls) - 1
        made.append(
            Call(
                id=str(index),
                prompt=tuple(messages),
                completion=(answer,),
                lineage=lineage,
                hints=tuple(Hint(kind) for kind in hints) if last else (),
            )
        )
        tokens.append(rendered(messages, answer))
    rollout = Rollout("made", tuple(made))
    encoding = Encoding(tuple(tokens), "bytes", "neutral")
    return find_junctions(build_tree(encoding, rollout), encoding, rollout)


def rendered(prompt: list[Message], completion: Message) -> CallTokens:
    """One token a byte: a role header, then every part."""
    pieces, spans, start = [], [], 0
    for part in prompt:
        ids = body(part)
        spans.append(span(part, start, start + len(ids)))
        pieces.append(ids)
        start += len(ids)
    header = int_array(list(f"<{completion.role}>".encode()))
    answer = body(completion)[len(header) :]
    spans.append(span(completion, start, start + len(header) + len(answer)))
    return CallTokens((*pieces, header), answer, tuple(spans))


def body(part: Message) -> np.ndarray:
    return int_array(list(f"<{part.role}>{part.text}\n".encode()))


def span(part: Message, start: int, end: int) -> Span:
    return Span(start, end, part.content_key.hex(), part.role, part.mark or "")


TURN1 = ([SYSTEM, ASK], ACT1)
TURN2 = ([SYSTEM, ASK, ACT1, OUT1], ACT2)
COMPACT = ([SYSTEM, ASK, ACT1, OUT1, ACT2, OUT2, REQUEST], SUMMARY)
NEXT: Text = ("assistant", "Answer: Amber")

KINDS: dict[str, tuple[list[tuple[list[Text], Text]], str]] = {
    "an extension": ([TURN1, TURN2], ""),
    "the same prompt again": ([TURN1, ([SYSTEM, ASK], NEXT)], "retry"),
    "another spacing of JSON": (
        [
            ([SYSTEM, ASK], ("assistant", '{"a": 1, "b": [2]}')),
            ([SYSTEM, ASK, ("assistant", '{"b":[2],"a":1}'), OUT1], ACT2),
        ],
        "reserialise",
    ),
    "only reasoning went": (
        [
            ([SYSTEM, ASK], ("assistant", "think:I should look this up first|Search: Skelling")),
            ([SYSTEM, ASK, ("assistant", "Search: Skelling"), OUT1], ACT2),
        ],
        "template_strip",
    ),
    "the middle went": ([TURN1, TURN2, ([SYSTEM, ASK, ACT2, OUT2], NEXT)], "drop"),
    "a stub in place": (
        [TURN1, TURN2, ([SYSTEM, ASK, ACT1, STUB, ACT2, OUT2], NEXT)],
        "placeholder",
    ),
    "a summary alone": (
        [TURN1, TURN2, COMPACT, ([SYSTEM, ("user", f"So far: {SUMMARY[1]}")], NEXT)],
        "summary",
    ),
    "a summary and a tail": (
        [TURN1, TURN2, COMPACT, ([SYSTEM, ("user", f"So far: {SUMMARY[1]}"), ACT2, OUT2], NEXT)],
        "summary_tail",
    ),
    "a summary by its mark": ([TURN1, TURN2, ([SYSTEM, ("summary!", "Short.")], NEXT)], "summary"),
    "old text returns in front": (
        [
            TURN2,
            ([SYSTEM, ASK, ACT1, ACT2, OUT2], NEXT),
            ([SYSTEM, ASK, ACT1, OUT1, ACT2, OUT2, NEXT], NEXT),
        ],
        "restore",
    ),
    "back to an earlier point": (
        [TURN2, ([SYSTEM, ASK, ACT1], ("assistant", "Something else."))],
        "rewind",
    ),
    "everything but the header": (
        [TURN1, TURN2, ([("system", "It is Tuesday."), ASK, ACT1, OUT1, ACT2, OUT2], NEXT)],
        "header_change",
    ),
    "as many other messages": (
        [TURN1, ([SYSTEM, ("user", "Stop."), ("assistant", "Fine.")], NEXT)],
        "rewrite",
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_kind_follows_from_what_changed(name: str) -> None:
    calls, kind = KINDS[name]
    found = junctions(*calls, lineage="main")
    assert [junction.kind for junction in found[-1:]] == [kind] * bool(kind)
    assert all(junction.evidence == "derived" for junction in found) or "mark" in name


def test_what_the_harness_says_wins_and_is_marked_recorded() -> None:
    calls, _ = KINDS["the middle went"]
    (junction,) = junctions(*calls, hints=("fold",))
    assert (junction.kind, junction.evidence) == ("fold", "recorded")
    calls, _ = KINDS["a summary and a tail"]
    (junction,) = junctions(*calls, hints=("summary",))
    assert (junction.kind, junction.evidence) == ("summary_tail", "recorded")


def test_starred_kinds_are_listed_but_are_no_evictions() -> None:
    calls, _ = KINDS["the same prompt again"]
    (junction,) = junctions(*calls)
    assert not junction.is_eviction


def test_same_text_in_other_tokens_is_retokenised_only_if_the_text_is_known() -> None:
    words = {1: "<u>", 2: "</a>", 5: "he", 6: "llo", 7: "hello", 8: "ok", 9: "hi"}
    prompts = [[1, 9], [1, 9, 7, 2, 1, 8]]
    completions = [[5, 6, 2], [9, 2]]
    calls = tuple(
        Call(str(i), prompt_ids=int_array(p), completion_ids=int_array(c), lineage="main")
        for i, (p, c) in enumerate(zip(prompts, completions, strict=True))
    )
    tokens = tuple(
        CallTokens((int_array(p),), int_array(c), ())
        for p, c in zip(prompts, completions, strict=True)
    )
    rollout, encoding = Rollout("r", calls), Encoding(tokens, "unknown", "recorded")
    tree = build_tree(encoding, rollout)

    def decode(ids: np.ndarray) -> str:
        return "".join(words[int(i)] for i in ids)

    (named,) = find_junctions(tree, encoding, rollout, decode)
    (blind,) = find_junctions(tree, encoding, rollout)
    assert (named.kind, named.depth, len(tree.leaves)) == ("retokenise", 2, 2)
    assert not named.is_eviction
    assert blind.kind != "retokenise"


@pytest.mark.parametrize(("after", "found"), [(3_000, True), (6_500, False)])
def test_a_fall_of_reported_size_without_a_change_is_unexplained(after: int, found: bool) -> None:
    calls = (
        Call(
            "0",
            prompt_ids=int_array([1, 2]),
            completion_ids=int_array([3]),
            lineage="m",
            usage=Usage(prompt=9_000),
        ),
        Call(
            "1",
            prompt_ids=int_array([1, 2, 3, 4]),
            completion_ids=int_array([5]),
            lineage="m",
            usage=Usage(prompt=after),
        ),
    )
    tokens = tuple(
        CallTokens((c.prompt_ids,), c.completion_ids, ())
        for c in calls
        if c.prompt_ids is not None and c.completion_ids is not None
    )
    rollout, encoding = Rollout("r", calls), Encoding(tokens, "unknown", "recorded")
    junctions = find_junctions(build_tree(encoding, rollout), encoding, rollout)
    assert [(j.kind, j.depth, j.evicted_tokens, j.evidence) for j in junctions] == [
        ("unexplained", None, 6_000, "usage")
    ] * found


def test_an_unnamed_log_with_a_changed_header_starts_a_new_lineage() -> None:
    calls, _ = KINDS["everything but the header"]
    assert junctions(*calls) == ()
