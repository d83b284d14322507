"""Whose tokens a rollout is in, and what is kept of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

import mwviz
from mwviz import cli, token_store
from mwviz.analysis import Analysis
from mwviz.engine.model import load_model, load_reader
from mwviz.readers import TokenizerOnly, told
from mwviz.rollout import Call, Message, Part, Rollout
from mwviz.token_store import TokenKey, words
from mwviz.tokens import encode
from tests.saved_model import save_chat_model, save_tiny_model
from tests.strategies import encoded, token_calls


def said(role: str, text: str, **more: Any) -> Message:
    return Message(role, (Part("text", text),), **more)


ASK, FOUR, NEXT = said("user", "what is it"), said("assistant", "four"), said("user", "é four?")
CALLS = (
    Call("0", prompt=(ASK,), completion=(FOUR,)),
    Call("1", prompt=(NEXT,), completion=(FOUR,), finish="length"),
)
ROLLOUT = Rollout("r", CALLS)
LINES = [
    {"messages": [{"role": "user", "content": "what is it"}], "completion": "four"},
    {"messages": [{"role": "user", "content": "is it four?"}], "completion": "it is"},
]


@pytest.fixture(scope="module")
def chatty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "chatty"
    save_chat_model(folder)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_messages_are_rendered_once_by_the_readers_template(chatty: Path) -> None:
    analysis, reader = Analysis(ROLLOUT), load_reader(chatty)
    found = analysis.for_model(reader)
    assert found is analysis.for_model(reader) is found.for_model(reader)
    assert found.encoding.rendering == "template of chatty"
    shown = found.decoder.text(found.encoding.calls[1].context)
    assert shown == "<|im_start|>user\né four?<|im_end|>\n<|im_start|>assistant\nfour"


def test_recorded_ids_stay_with_the_model_that_recorded_them(chatty: Path) -> None:
    ids = np.array([1, 2, 3], dtype=np.int32)
    calls = tuple(replace(call, prompt_ids=ids, completion_ids=ids) for call in CALLS)
    own = Analysis(Rollout("r", calls, tokenizer="org/Chatty"))
    assert own.for_model(load_reader(chatty)) is own
    other = Analysis(Rollout("r", calls, tokenizer="another"))
    assert other.for_model(load_reader(chatty)).encoding.rendering == "template of chatty"
    bare = tuple(replace(call, prompt=None, completion=None) for call in calls)
    with pytest.raises(mwviz.ModelError, match="no text to render again"):
        Analysis(Rollout("r", bare, tokenizer="another")).for_model(load_reader(chatty))


def test_without_a_template_the_neutral_form_is_cut_by_the_readers_own_tokenizer(
    chatty: Path,
) -> None:
    reader = load_reader(chatty)
    assert reader.tokenizer is not None
    reader.tokenizer.chat_template = None
    found = Analysis(ROLLOUT).for_model(reader)
    assert (found.encoding.rendering, found.encoding.tokenizer) == ("neutral/1", "chatty")
    assert found.decoder.text(found.encoding.calls[0].context) == (
        "[user]\nwhat is it[assistant]\nfour"
    )


def test_a_template_that_refuses_leaves_the_neutral_form_and_says_so(chatty: Path) -> None:
    reader = load_reader(chatty)
    assert reader.tokenizer is not None
    reader.tokenizer.chat_template = "{{ raise_exception('no é') }}"
    found = Analysis(ROLLOUT).for_model(reader)
    assert found.encoding.rendering == "neutral/1"
    assert found.encoding.warnings[-1] == (
        "the chat template of chatty refuses a call (no é): rendered neutrally"
    )


@pytest.mark.usefixtures("cache")
def test_scores_are_taken_only_in_the_tokens_that_the_model_reads(chatty: Path) -> None:
    model, analysis = load_model(chatty), Analysis(ROLLOUT)
    with pytest.raises(mwviz.ModelError, match=r"score analysis.for_model\(model\)"):
        analysis.score(model, "rightmost")
    table = analysis.compare("rightmost", model=model)
    assert len(table) == len(analysis.for_model(model).tree.token)


def test_a_call_that_sampled_nothing_can_be_rendered() -> None:
    assert told(Rollout("r", (Call("0", prompt=(ASK,)),)))
    ids = np.array([1], dtype=np.int32)
    assert not told(Rollout("r", (Call("0", prompt=(ASK,), completion_ids=ids),)))


@settings(max_examples=30)
@given(calls=token_calls(alphabet=4))
def test_kept_tokens_are_those_that_were_put_there(
    calls: list[tuple[str | None, list[int], list[int]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    rollout, encoding = encoded(calls)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        key = TokenKey(words(rollout), "model@1", "digest")
        token_store.save(key, encoding)
        found = token_store.load(key)
    assert found is not None
    for mine, theirs in zip(encoding.calls, found.calls, strict=True):
        assert np.array_equal(mine.context, theirs.context)
        assert mine.prompt_length == theirs.prompt_length
        assert tuple(mine.spans) == tuple(theirs.spans)
    about = (encoding.tokenizer, encoding.rendering, encoding.warnings)
    assert (found.tokenizer, found.rendering, found.warnings) == about


@pytest.mark.usefixtures("cache")
def test_kept_tokens_bring_their_texts(chatty: Path) -> None:
    mine = Analysis(ROLLOUT).for_model(load_reader(chatty))
    key = TokenKey(words(ROLLOUT), "chatty@1", mine.digest)
    token_store.save(key, mine.encoding)
    encoding = token_store.load(key)
    assert encoding is not None
    found = Analysis(mine.rollout, encoding=encoding)
    assert found.digest == mine.digest
    assert found.decoder.decode(found.tree.ids) == mine.decoder.decode(mine.tree.ids)
    assert found.decoder.vocabulary is not None
    assert found.decoder.vocabulary.special(0)


@pytest.mark.usefixtures("cache")
def test_broken_files_of_tokens_count_as_absent() -> None:
    key = TokenKey(words(ROLLOUT), "m@1", "d")
    assert token_store.load(key) is None
    path = token_store.save(key, encode(ROLLOUT))
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at])
        assert token_store.load(key) is None
    path.write_bytes(whole)
    assert token_store.load(key) is not None


def test_the_digest_of_words_follows_all_that_a_template_is_given() -> None:
    other, thought = said("assistant", "for"), Message("user", (Part("reasoning", "what is it"),))
    changed = [
        replace(ROLLOUT, calls=CALLS[:1]),
        replace(ROLLOUT, calls=(CALLS[0], replace(CALLS[1], finish=None))),
        replace(ROLLOUT, calls=(CALLS[0], replace(CALLS[1], completion=(other,)))),
        replace(ROLLOUT, calls=(CALLS[0], replace(CALLS[1], completion=None))),
        replace(ROLLOUT, calls=(replace(CALLS[0], prompt=(replace(ASK, id="7"),)), CALLS[1])),
        replace(ROLLOUT, calls=(replace(CALLS[0], prompt=(thought,)), CALLS[1])),
    ]
    assert len({words(one) for one in (ROLLOUT, *changed)}) == 1 + len(changed)
    again = Rollout("other name", tuple(replace(call) for call in CALLS))
    assert words(again) == words(ROLLOUT)


def test_all_commands_count_in_the_tokens_of_the_named_model(
    chatty: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = cache / "said.jsonl"
    lines = [
        {**line, "completion": [{"role": "assistant", "content": line["completion"]}]}
        for line in LINES
    ]
    trace.write_text("\n".join(map(json.dumps, lines)))
    wanted = mwviz.load(trace).analyses[0].for_model(load_reader(chatty))

    def asked(command: str) -> Any:
        assert cli.main([*command.format(trace).split(), "--model", str(chatty)]) == 0
        return json.loads(capsys.readouterr().out)

    rendering = "template of chatty"
    (rollout,) = asked("inspect {} --json")["rollouts"]
    assert (rollout["rendering"], rollout["tokens"]["tree"]) == (rendering, wanted.tree.size)
    assert asked("score {} --method rightmost --json")["rollouts"][0]["rendering"] == rendering
    last = int(wanted.tree.offset[-1])
    for also in ("", " --no-model"):
        why = asked("why {} --view replay --call 1 --token " + str(last) + " --json" + also)
        assert (why["rendering"], why["text"]) == (rendering, "<|im_end|>")
    leaks = asked("leaks {} --call 1 --json")
    assert (leaks["rendering"], leaks["text"]) == (rendering, "it is<|im_end|>")
    assert asked("undo {} --json")["rendering"] == rendering
    assert asked("check {} --max-drift 9 --format json")["ok"]


def test_a_model_is_counted_by_without_its_weights(tmp_path: Path) -> None:
    save_tiny_model(tmp_path / "tiny")
    assert load_reader(tmp_path / "tiny") == TokenizerOnly("tiny", "tiny", None)


def test_training_data_is_written_in_the_tokens_of_the_named_model(
    chatty: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = cache / "said.jsonl", cache / "branches.jsonl"
    said = {"messages": LINES[0]["messages"]}
    said["completion"] = [{"role": "assistant", "content": "four"}]
    trace.write_text(json.dumps(said))
    asked = ["convert", str(trace), str(out), "--model", str(chatty)]
    assert cli.main([*asked, "--as", "branches"]) == 0
    assert "template of chatty" in capsys.readouterr().err
    fitting = mwviz.load(trace).analyses[0].for_model(load_reader(chatty))
    (sample,) = map(json.loads, out.read_text().splitlines())
    assert sample["input_ids"] == fitting.encoding.calls[0].context.tolist()
    assert sample["rendering"] == "template of chatty"
    assert cli.main(asked) == 2
    assert "--model is for training data" in capsys.readouterr().err


def test_the_neutral_form_in_a_models_own_tokenizer_is_not_what_it_reads(chatty: Path) -> None:
    neutral = Analysis(ROLLOUT, tokenizer=str(chatty))
    assert neutral.encoding.rendering == "neutral/1"
    assert neutral.for_model(load_reader(chatty)).encoding.rendering == "template of chatty"
