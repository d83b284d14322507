"""Qwen-Agent's truncation, worked out again: counted in words, one token a word."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mwviz.cli import main
from mwviz.formats import Reading, read
from mwviz.formats.qwen_truncation import (
    ImpossibleError,
    Kept,
    Spoken,
    Truncation,
    shortened,
)
from mwviz.rollout import Ints
from mwviz.tokenizer import WORDS
from tests.formats.test_call_formats import FIXTURES

ASKED = Spoken("user", "q q", "q q")
CALLED = Spoken("assistant", "", "c c")
FOUND = Spoken("function", "1 2 3 4 5 6 7 8", "1 2 3 4 5 6 7 8")
SAID = Spoken("assistant", "a a a", "a a a")
TURN = [ASKED, CALLED, FOUND, SAID]


def words(spoken: Spoken) -> int:
    return len(spoken.counted.split())


def cut(messages: list[Spoken], limit: int) -> list[tuple[int, str | None]]:
    return [(k.at, k.text) for k in shortened(messages, Truncation(limit, Words()))]


class Words:
    """A token is a word with the space behind it."""

    def __init__(self) -> None:
        self.known: list[str] = []

    def encode(self, texts: Sequence[str]) -> list[Ints]:
        self.known += [word for text in texts for word in text.split()]
        return [np.array([self.known.index(w) for w in t.split()], np.int32) for t in texts]

    def piece(self, token: int) -> bytes:
        return self.known[token].encode() + b" "


def test_what_fits_is_sent_whole() -> None:
    size = sum(words(m) for m in TURN)
    assert cut(TURN, size) == [(0, None), (1, None), (2, None), (3, None)]


def test_a_turn_that_fits_the_overshoot_goes_whole() -> None:
    assert cut([*TURN, ASKED], 2) == [(4, None)]


def test_a_result_loses_its_middle_before_anything_else() -> None:
    kept = dict(cut([*TURN, ASKED], 13))
    assert (kept[2] or "").split() == ["1", "...", "7", "8"]
    assert [kept[at] for at in (0, 1, 3, 4)] == [None] * 4


def test_results_become_one_word_before_middle_steps_go() -> None:
    two = [ASKED, CALLED, FOUND, CALLED, FOUND, SAID]
    assert cut(two, 8) == [(0, None), (3, None), (4, "omit"), (5, None)]


def test_in_the_latest_turn_the_last_step_is_spared_first() -> None:
    kept = dict(cut([ASKED, CALLED, FOUND, CALLED, FOUND], 14))
    assert (kept[2], kept[4]) == ("omit", None)


def test_a_message_that_is_cut_loses_its_name_and_its_call() -> None:
    found = shortened([ASKED, CALLED], Truncation(1, Words()))
    assert found == [Kept(0, "omit"), Kept(1, "", bare=True)]


def test_the_system_message_counts_and_stays() -> None:
    system = Spoken("system", "s s s", "s s s")
    assert cut([system, *TURN, ASKED], 5) == [(0, None), (5, None)]


@pytest.mark.parametrize(
    ("messages", "limit"),
    [
        ([Spoken("system", "s", "s"), Spoken("system", "s", "s"), ASKED], 9),
        ([CALLED], 9),
        ([], 9),
        ([Spoken("system", "s s", "s s"), ASKED], 2),
        ([ASKED, ASKED], 3),
        ([ASKED, FOUND], 3),
    ],
)
def test_what_the_harness_would_have_refused(messages: list[Spoken], limit: int) -> None:
    with pytest.raises(ImpossibleError):
        shortened(messages, Truncation(limit, Words()))


def chat(*contents: tuple[str, str]) -> bytes:
    values: list[dict[str, Any]] = [{"role": role, "content": text} for role, text in contents]
    values[1]["function_call"] = {"name": "look", "arguments": "{}"}
    values[1]["extra"] = {"function_id": "1"}
    return json.dumps(values).encode()


def opened(data: bytes, limit: int) -> Reading:
    return read(data, truncation=Truncation(limit, Words()))


def test_prompts_of_a_list_are_cut_call_by_call() -> None:
    data = chat(
        ("user", "q q"),
        ("assistant", ""),
        ("function", "1 2 3 4 5 6 7 8"),
        ("assistant", "a a a"),
        ("user", "r"),
        ("assistant", "b"),
    )
    (rollout,) = opened(data, 13).rollouts
    texts = [[m.text.split() for m in call.prompt or ()] for call in rollout.calls]
    assert texts[0] == [["q", "q"]]
    assert texts[1][2] == ["1", "2", "3", "...", "6", "7", "8"]
    assert texts[2] == [["q", "q"], ["{}"], ["1", "...", "8"], ["a", "a", "a"], ["r"]]
    assert rollout.warnings[0].startswith("prompts are cut to 13 tokens by the rule of qwen-agent")
    assert all("shortened" not in hole.why for call in rollout.calls for hole in call.holes)


def test_a_list_with_an_image_is_not_cut() -> None:
    (rollout,) = opened((FIXTURES / "qwen-agent" / "list.json").read_bytes(), 5).rollouts
    assert any("holds media" in warning for warning in rollout.warnings)
    assert [len(call.prompt or ()) for call in rollout.calls] == [2, 5, 7]


def test_convert_works_the_truncation_out(tmp_path: Path, capsys: Any) -> None:
    source, made = tmp_path / "list.json", tmp_path / "made.jsonl"
    source.write_bytes(chat(("user", "q"), ("assistant", ""), ("function", "1 " * 99)))
    values = [*json.loads(source.read_bytes()), {"role": "assistant", "content": "a"}]
    source.write_text(json.dumps(values))
    asked = ["convert", str(source), str(made), "--truncation", "60"]
    assert main(asked) == 2
    assert "with --tokenizer the tokenizer.json of Qwen" in capsys.readouterr().err
    assert main([*asked, "--tokenizer", WORDS]) == 0
    last = read(made).rollouts[0].calls[-1]
    assert last.prompt is not None
    assert "..." in last.prompt[-1].text


def test_calls_that_the_limit_refuses_keep_their_prompt_and_say_so() -> None:
    data = chat(
        ("user", "q"), ("assistant", ""), ("function", "1"), ("user", "r"), ("assistant", "b")
    )
    values = json.loads(data)
    values.insert(0, {"role": "system", "content": "s s s s"})
    (rollout,) = opened(json.dumps(values).encode(), 3).rollouts
    assert {call.content for call in rollout.calls} == {"unknown"}
    assert any("refuses 2 of the calls" in warning for warning in rollout.warnings)
