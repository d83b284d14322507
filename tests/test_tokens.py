from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from mwviz import tokenizer
from mwviz.errors import SetupError
from mwviz.rollout import Call, Message, Part, Rollout, Span
from mwviz.tokenizer import WORDS, WordTokenizer
from mwviz.tokens import Decoder, Encoding, encode, tokenizer_for, without_ids

CASE = Path(__file__).parent / "data" / "cases" / "T05" / "input.txt"
BYTES = "".join(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))


def text(role: str, said: str, **more: str) -> Message:
    return Message(role, (Part("text", said),), **more)  # type: ignore[arg-type]


SYSTEM = text("system", "be brief")
ASK = text("user", "what is 2+2?", id="u1")
ANSWER = text("assistant", "it is four", id="a1")
THANKS = text("user", "thanks é 日本 \U0001f600", id="u2")
CHAT = Rollout(
    "r",
    (
        Call("0", prompt=(SYSTEM, ASK), completion=(ANSWER,)),
        Call("1", prompt=(SYSTEM, ASK, ANSWER, THANKS), completion=(text("assistant", "bye"),)),
    ),
)


@pytest.fixture(scope="module")
def byte_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE trained here, with a special token and few merges."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|end|>"],
        initial_alphabet=list(BYTES),
        show_progress=False,
    )
    made.train_from_iterator(["what is four and what is it"] * 5, trainer)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    made.save(str(path))
    return path


def recorded(rollout_tokenizer: str | None, model: str | None = None) -> Rollout:
    ids = np.array([1, 2, 3], np.int32)
    spans = (Span(0, 3, "m", "user", ""),)
    call = Call(
        "0", prompt=(ASK,), prompt_ids=ids, completion_ids=ids[:1], spans=spans, model=model
    )
    return Rollout("r", (call,), tokenizer=rollout_tokenizer)


def test_t05_recorded_ids_win_over_equal_text() -> None:
    words = dict(pair.split("=") for pair in CASE.read_text().splitlines()[0].split()[1:])
    calls = (
        Call("1", prompt_ids=ids(1, 9), completion_ids=ids(5, 6, 2)),
        Call("2", prompt_ids=ids(1, 9, 7, 2, 1, 8), completion_ids=ids(9, 2)),
    )
    first, second = encode(Rollout("r", calls)).calls
    shared = np.flatnonzero(first.context[:4] != second.context[:4])[0]
    assert shared == 2
    left = "".join(words[str(token)] for token in first.context)
    assert left == "".join(words[str(token)] for token in second.context[:4]) == "<u>hihello</a>"


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def test_recorded_ids_pass_through_untouched() -> None:
    rollout = recorded("org/name")
    encoding = encode(rollout)
    assert (encoding.tokenizer, encoding.rendering, encoding.warnings) == (
        "org/name",
        "recorded",
        (),
    )
    (call,) = encoding.calls
    assert call.prompt[0] is rollout.calls[0].prompt_ids
    assert call.spans == rollout.calls[0].spans


@pytest.mark.parametrize(
    ("named", "model", "asked", "expected"),
    [
        (None, None, None, "unknown"),
        (None, "SmolLM2-135M-Instruct Q4_1->fp32", None, "SmolLM2-135M-Instruct"),
        (None, "SmolLM2-135M-Instruct-2", "mine", "mine"),
        (None, "SmolLM2-1350M", None, "unknown"),
        ("org/name", None, None, "org/name"),
        (None, None, WORDS, "unknown"),
    ],
)
def test_recorded_ids_are_named_by_log_user_or_model(
    named: str | None, model: str | None, asked: str | None, expected: str
) -> None:
    assert encode(recorded(named, model), asked).tokenizer == expected


def test_a_choice_that_the_log_contradicts_is_said() -> None:
    assert encode(recorded("org/name"), "other").warnings == (
        "the ids were recorded with 'org/name', so 'other' is not used",
    )


def test_messages_are_rendered_one_by_one_with_a_role_header() -> None:
    encoding = encode(CHAT, WORDS)
    decoder = Decoder(encoding)
    first, second = encoding.calls
    assert (encoding.tokenizer, encoding.rendering) == (WORDS, "neutral/1")
    assert (
        decoder.text(np.concatenate(first.prompt))
        == "[system]\nbe brief[user]\nwhat is 2+2?[assistant]\n"
    )
    assert decoder.text(first.completion) == "it is four"
    assert np.array_equal(second.context[: len(first.context)], first.context)
    assert second.prompt[0] is first.prompt[0]


def test_spans_cover_header_and_body_and_name_the_message() -> None:
    first, second = encode(CHAT, WORDS).calls
    assert [(s.message, s.role, s.kind) for s in second.spans[:4]] == [
        (SYSTEM.content_key.hex(), "system", "system"),
        ("u1", "user", ""),
        ("a1", "assistant", "act"),
        ("u2", "user", ""),
    ]
    for call in (first, second):
        assert [s.start for s in call.spans[1:]] == [s.end for s in call.spans[:-1]]
        assert call.spans[-1].end == len(call.context)
    assert second.spans[2] == first.spans[2]
    assert first.spans[2].start < first.prompt_length


def test_a_completion_of_several_messages_returns_token_for_token() -> None:
    tool = Message("tool", (Part("tool_result", "out", id="t"),), id="r1")
    sampled = (ANSWER, tool, text("assistant", "more", id="a2"))
    calls = (
        Call("0", prompt=(ASK,), completion=sampled),
        Call("1", prompt=(ASK, *sampled, THANKS), completion=()),
        Call("2", prompt=(ASK, *sampled, THANKS), completion=None),
    )
    first, second, third = encode(Rollout("r", calls), WORDS).calls
    assert np.array_equal(second.context[: len(first.context)], first.context)
    assert len(second.completion) == len(third.completion) == 0
    assert np.array_equal(second.context, third.context)


def test_a_call_that_does_not_continue_the_one_before_is_encoded_by_itself() -> None:
    prompts = [
        (SYSTEM, ASK, ANSWER, THANKS),
        (SYSTEM, THANKS),
        (ASK, ANSWER),
        (ASK, ANSWER, THANKS),
    ]
    calls = tuple(Call(str(at), prompt=prompt) for at, prompt in enumerate(prompts))
    together = encode(Rollout("r", calls), WORDS)
    decoder = Decoder(together)
    for call, tokens in zip(calls, together.calls, strict=True):
        alone = encode(Rollout("r", (call,)), WORDS)
        assert decoder.text(tokens.context) == Decoder(alone).text(alone.calls[0].context)
        assert tokens.spans == alone.calls[0].spans


def test_equal_messages_need_not_be_one_object() -> None:
    twin = replace(ASK)
    calls = (Call("0", prompt=(ASK,)), Call("1", prompt=(twin, THANKS)), Call("2", prompt=(twin,)))
    first, second, third = encode(Rollout("r", calls), WORDS).calls
    assert np.array_equal(first.context, third.context)
    assert np.array_equal(second.context[: len(first.context)], first.context)
    assert first.spans == third.spans == second.spans[:1]


def test_blocks_are_rendered_as_the_model_could_read_them() -> None:
    message = Message(
        "assistant",
        (
            Part("reasoning", "hm"),
            Part("tool_call", '{"a":1}', name='l"s', id="t"),
            Part("image", "", name="image/png"),
        ),
    )
    encoding = encode(Rollout("r", (Call("0", prompt=(message,)),)), WORDS)
    said = Decoder(encoding).text(encoding.calls[0].context)
    assert said == '[assistant]\nhm\n{"arguments":{"a":1},"name":"l\\"s"}\n[image/png]'
    assert encoding.warnings == (
        "1 images or files stand as a placeholder each: their own tokens are in no count",
    )


def test_marks_and_reasoning_are_the_kind_of_a_span() -> None:
    summary = text("user", "so far", mark="summary")
    thought = Message("assistant", (Part("reasoning", "hm"),))
    (call,) = encode(Rollout("r", (Call("0", prompt=(summary, thought)),)), WORDS).calls
    assert [span.kind for span in call.spans] == ["summary", "reasoning"]


def test_calls_with_and_without_ids_share_the_rendering() -> None:
    with_ids = replace(CHAT.calls[0], prompt_ids=ids(1), completion_ids=ids(2))
    encoding = encode(replace(CHAT, calls=(with_ids, CHAT.calls[1])), WORDS)
    assert encoding.rendering == "neutral/1"
    assert encoding.warnings[0].startswith("1 of 2 calls have no recorded token ids")


def test_a_call_with_nothing_to_encode_counts_as_empty_and_is_said() -> None:
    bare = Rollout("r", (Call("0", prompt_ids=ids(1), completion_ids=ids(2)), Call("1")))
    encoding = encode(bare)
    assert [len(call.context) for call in encoding.calls] == [2, 0]
    assert encoding.warnings[0].startswith("1 calls have neither token ids nor messages")


def test_without_ids_everything_is_rendered() -> None:
    bare = without_ids(recorded("org/name"))
    assert bare.calls[0].prompt_ids is None
    assert bare.calls[0].tokens == "rendered"
    assert encode(bare, WORDS).rendering == "neutral/1"


@given(st.text(), st.text())
def test_built_in_tokens_join_to_the_text(left: str, right: str) -> None:
    words = WordTokenizer()
    first, second, third = words.encode([left, right, left])
    assert np.array_equal(first, third)
    decoder = Decoder(Encoding((), WORDS, "neutral/1", (), words.words or ("",)))
    assert decoder.text(first) == left
    assert "".join(decoder.decode(second)) == right


def test_built_in_ids_are_the_same_each_time() -> None:
    left, right = encode(CHAT, WORDS), encode(CHAT, WORDS)
    assert left.vocabulary == right.vocabulary
    assert all(
        np.array_equal(a.context, b.context) for a, b in zip(left.calls, right.calls, strict=True)
    )


def test_a_tokenizer_file_encodes_and_decodes(byte_file: Path) -> None:
    encoding = encode(CHAT, str(byte_file))
    decoder = Decoder(encoding)
    assert encoding.tokenizer == str(byte_file)
    assert encoding.vocabulary == ()
    assert decoder.known
    context = encoding.calls[1].context
    assert decoder.text(context).endswith("[user]\nthanks é 日本 \U0001f600[assistant]\nbye")
    assert "what" in decoder.decode(context)


def test_a_part_of_a_character_is_shown_as_escaped_bytes(byte_file: Path) -> None:
    encoding = encode(CHAT, str(byte_file))
    shown = Decoder(encoding).decode(encoding.calls[1].context)
    start = shown.index("\\xc3")
    assert shown[start : start + 2] == ["\\xc3", "\\xa9"]


@given(st.lists(st.sampled_from(["a", " ", "  ", "\n", "é", "12", "'s", "(", " of", "日"])))
def test_a_long_text_gives_the_ids_it_would_give_in_one_piece(
    byte_file: Path, words: list[str]
) -> None:
    text = "".join(words) * 50
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tokenizer, "LONG", 20)
        patched.setattr(tokenizer, "CUT", re.compile(r".{20}.*?\S(?= \S)", re.DOTALL))
        pieces = tokenizer._cut(text)
    assert "".join(pieces) == text
    found = tokenizer_for(str(byte_file))
    assert found is not None
    (whole,) = found.encode([text])
    assert np.array_equal(np.concatenate(found.encode(pieces)), whole)


def test_texts_are_tokenised_in_batches_of_bounded_size() -> None:
    texts = ["a" * 10, "b" * tokenizer.BATCH, "", "c d " * tokenizer.LONG]
    batches = list(tokenizer._batches(piece for t in texts for piece in tokenizer._cut(t)))
    assert "".join(text for batch in batches for text in batch) == "".join(texts)
    assert max(sum(map(len, batch)) for batch in batches) <= tokenizer.BATCH


def test_special_tokens_in_a_trace_stay_text(byte_file: Path) -> None:
    trap = Rollout("r", (Call("0", prompt=(text("user", "a<|end|>b"),)),))
    encoding = encode(trap, str(byte_file))
    context = encoding.calls[0].context
    assert 0 not in context.tolist()
    assert Decoder(encoding).text(context) == "[user]\na<|end|>b"
    assert Decoder(encoding).decode([0]) == ["<|end|>"]


def test_ids_of_no_known_tokenizer_are_shown_as_numbers() -> None:
    decoder = Decoder(encode(recorded(None)))
    assert not decoder.known
    assert decoder.decode([123, 5]) == ["\u2039123\u203a", "\u20395\u203a"]
    assert decoder.text([123, 5]) == "\u2039123\u203a\u20395\u203a"


def test_ids_beyond_a_vocabulary_are_shown_as_numbers(byte_file: Path) -> None:
    decoder = Decoder(encode(CHAT, str(byte_file)))
    assert decoder.decode([999_999]) == ["\u2039999999\u203a"]


def test_a_name_in_a_trace_is_never_opened_as_a_path(byte_file: Path) -> None:
    encoding = encode(recorded(str(byte_file)))
    assert not Decoder(encoding).known
    assert Decoder(encoding, tokenizer=str(byte_file)).known


def test_tokenizers_that_are_not_here_are_refused(tmp_path: Path) -> None:
    assert tokenizer_for("org/unheard-of") is None
    with pytest.raises(SetupError, match=r"File name too long, expected a tokenizer.json"):
        tokenizer_for("x" * 300)
    with pytest.raises(SetupError, match="tokenizer 'org/unheard-of' is not here"):
        encode(CHAT, "org/unheard-of")
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")
    with pytest.raises(SetupError, match=r"expected a tokenizer[.]json"):
        encode(CHAT, str(tmp_path))


def test_text_that_no_tokenizer_takes_is_replaced(byte_file: Path) -> None:
    odd = Rollout("r", (Call("0", prompt=(text("user", "a\ud800b"),)),))
    for name in (WORDS, str(byte_file)):
        encoding = encode(odd, name)
        assert Decoder(encoding).text(encoding.calls[0].context) == "[user]\na?b"


@pytest.mark.embedded
def test_the_embedded_tokenizer_splits_digits() -> None:
    found = tokenizer_for("HuggingFaceTB/SmolLM2-135M-Instruct")
    if found is None:
        pytest.skip("the embedded model is not set up: mwviz doctor --install-model")
    (context,) = found.encode(["\n\n12 four"])
    assert [found.piece(int(token)) for token in context] == [b"\n\n", b"1", b"2", b" four"]
