"""Chat templates made for one trap each, on a byte-level tokenizer trained in process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tokenizers

from mwviz.analysis import Analysis
from mwviz.cutter import Cutter
from mwviz.rollout import Call, Message, Part, Rollout
from mwviz.templated import templated
from mwviz.templates import RefusedError, has_template, probe

OPEN, CLOSE = "<|im_start|>", "<|im_end|>"
BODY = "(m.reasoning_content or '') + (m.content or '')"
CALLED = (
    "{% for c in m.tool_calls or [] %}"
    "{{ c.function.name + (c.function.arguments | tojson) }}"
    "{% endfor %}"
)
TOOLS = "{% if tools %}{{ tools | tojson }}{% endif %}"
GENERATION = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


def template(
    body: str = BODY, *, before: str = "", called: str = CALLED, tools: str = TOOLS
) -> str:
    return (
        f"{tools}{before}{{% for m in messages %}}"
        f"{{{{ '{OPEN}' + m.role + '\n' + {body} }}}}{called}{{{{ '{CLOSE}\n' }}}}"
        f"{{% endfor %}}{GENERATION}"
    )


GOOD = template()
LAST = (
    "{% set ns = namespace(last=0) %}{% for m in messages %}{% if m.role == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}"
)
STRIPS = template(
    "(m.reasoning_content if m.reasoning_content and loop.index0 > ns.last else '')"
    " + (m.content or '')",
    before=LAST,
)
SYSTEM = (
    "{% if messages[0].role != 'system' %}"
    "{{ '<|im_start|>system\nBe good<|im_end|>\n' }}"
    "{% endif %}"
)
TRAPS = {
    "prefix": template(BODY + " + ('!' if loop.last and m.role == 'assistant' else '')"),
    "thinking_strip": STRIPS,
    "reasoning_dropped": template("(m.content or '')"),
    "generation_prompt": GOOD.replace(
        "assistant\n' }}{% endif %}", "assistant\n<think>' }}{% endif %}"
    ),
    "system_injection": template(before=SYSTEM),
    "tool_calls_dropped": template(called=""),
    "tool_calls_refused": template(
        called="{% if m.tool_calls %}{{ raise_exception('no tools here') }}{% endif %}"
    ),
    "tools_dropped": template(tools=""),
    "content_none": template("(m.reasoning_content or '') + m.content"),
    "content_trimmed": template("(m.reasoning_content or '') + ((m.content or '') | trim)"),
    "date": template(before="{% if false %}{{ strftime_now('%d') }}{% endif %}"),
}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    transformers = pytest.importorskip("transformers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=[OPEN, CLOSE],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(["user assistant system what is four"] * 5, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=OPEN, eos_token=CLOSE
    )


def with_template(tokenizer: Any, text: str | None) -> Any:
    tokenizer.chat_template = text
    return tokenizer


def names(tokenizer: Any, text: str | None) -> set[str]:
    return {trap.name for trap in probe(with_template(tokenizer, text))}


def test_a_template_that_sends_what_it_is_given_has_only_the_trap_of_special_tokens(
    tokenizer: Any,
) -> None:
    assert names(tokenizer, GOOD) == {"special_tokens"}
    assert names(tokenizer, None) == set()


@pytest.mark.parametrize("trap", TRAPS)
def test_each_trap_is_found_in_a_template_that_has_it(tokenizer: Any, trap: str) -> None:
    found = names(tokenizer, TRAPS[trap])
    also = {"prefix"} if trap == "thinking_strip" else set()
    also |= {"content_none"} if trap == "tool_calls_refused" else set()
    assert found - also == {"special_tokens", trap}


ASK = Message("user", (Part("text", "what is it"),), id="u1")
THINK = Message("assistant", (Part("reasoning", "hm hm"), Part("text", "four")), id="a1")
NEXT = Message("user", (Part("text", "and now"),), id="u2")
TOOL = Message("system", (Part("other", '[{"name":"look","input_schema":{}}]', name="tools"),))
LOOK = Message("assistant", (Part("tool_call", '{"a":1}', name="look", id="t"),), id="a2")
CALLS = (
    Call("0", prompt=(ASK,), completion=(THINK,), lineage="main"),
    Call("1", prompt=(ASK, THINK, NEXT), completion=(LOOK,), lineage="main"),
)


def said(tokenizer: Any, rollout: Rollout) -> list[tuple[str, str]]:
    found = templated(rollout, tokenizer, "t")
    return [
        (tokenizer.decode(np.concatenate(call.prompt)), tokenizer.decode(call.completion))
        for call in found.calls
    ]


def test_every_call_is_rendered_as_it_would_be_sent(tokenizer: Any) -> None:
    with_template(tokenizer, STRIPS)
    first, second = said(tokenizer, Rollout("r", CALLS))
    assert first == (
        f"{OPEN}user\nwhat is it{CLOSE}\n{OPEN}assistant\n",
        f"hm hmfour{CLOSE}",
    )
    assert second == (
        f"{OPEN}user\nwhat is it{CLOSE}\n{OPEN}assistant\nfour{CLOSE}\n"
        f"{OPEN}user\nand now{CLOSE}\n{OPEN}assistant\n",
        f'look{{"a": 1}}{CLOSE}',
    )


def test_a_branch_that_only_the_template_makes_is_no_eviction(tokenizer: Any) -> None:
    with_template(tokenizer, STRIPS)
    rollout = Rollout("r", CALLS)
    analysis = Analysis(rollout, encoding=templated(rollout, tokenizer, "t"))
    (junction,) = analysis.junction_list
    assert (junction.kind, junction.is_eviction) == ("retokenise", False)
    assert len(analysis.tree.leaves) == 2
    plain = Analysis(rollout, encoding=templated(rollout, with_template(tokenizer, GOOD), "t"))
    assert plain.junction_list == ()


def test_spans_are_those_of_the_messages(tokenizer: Any) -> None:
    with_template(tokenizer, GOOD)
    found = templated(Rollout("r", CALLS), tokenizer, "t").calls[1]
    shown = [tokenizer.decode(found.context[s.start : s.end]) for s in found.spans]
    assert [span.message for span in found.spans] == ["u1", "a1", "u2", "a2"]
    assert shown == [
        f"{OPEN}user\nwhat is it{CLOSE}\n",
        f"{OPEN}assistant\nhm hmfour{CLOSE}\n",
        f"{OPEN}user\nand now{CLOSE}\n",
        f'{OPEN}assistant\nlook{{"a": 1}}{CLOSE}',
    ]


def test_what_a_template_would_drop_is_given_as_text(tokenizer: Any) -> None:
    with_template(tokenizer, template("m.content", called="", tools=""))
    calls = (Call("0", prompt=(TOOL, ASK, THINK, NEXT), completion=(LOOK,)),)
    ((prompt, completion),) = said(tokenizer, Rollout("r", calls))
    assert "hm hm\nfour" in prompt
    assert prompt.startswith(f'{OPEN}system\n[{{"name":"look"')
    assert '"name":"look"' in completion
    warned = " ".join(templated(Rollout("r", calls), tokenizer, "t").warnings)
    for trap in ("reasoning_dropped", "tool_calls_dropped", "tools_dropped"):
        assert trap in warned
    assert "content_none" not in warned


def test_an_end_that_was_never_sampled_is_not_trained(tokenizer: Any) -> None:
    with_template(tokenizer, GOOD)
    calls = (Call("0", prompt=(ASK,), completion=(THINK,), finish="length"),)
    ((_, completion),) = said(tokenizer, Rollout("r", calls))
    assert completion == "hm hmfour"


def test_an_image_is_a_placeholder(tokenizer: Any) -> None:
    with_template(tokenizer, GOOD)
    shown = Message("user", (Part("text", "see"), Part("image", "", name="image/png")))
    ((prompt, _),) = said(
        tokenizer, Rollout("r", (Call("0", prompt=(shown,), completion=(THINK,)),))
    )
    assert "see\n[image/png]" in prompt


def test_a_template_that_refuses_a_call_says_so(tokenizer: Any) -> None:
    with_template(tokenizer, "{{ raise_exception('roles must alternate') }}")
    assert has_template(tokenizer)
    with pytest.raises(RefusedError, match="roles must alternate"):
        templated(Rollout("r", CALLS), tokenizer, "t")


def test_text_cut_between_special_tokens_has_the_tokens_of_the_whole(tokenizer: Any) -> None:
    cutter = Cutter(tokenizer)
    texts = [f"{OPEN}user\nwhat is {n} four{CLOSE}\n{OPEN}assistant\n" * n for n in range(1, 8)]
    for text in [*texts, "no mark", OPEN, f"{OPEN}{CLOSE}", "", f"a {CLOSE}b{CLOSE}"]:
        found = cutter.cut(text)
        whole = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        assert found.ids.tolist() == whole["input_ids"]
        assert found.starts.tolist() == [start for start, _ in whole["offset_mapping"]]
    assert len(cutter.cut(texts[6]).pieces) > 1, "the last ones were cut at the marks"


def test_a_tokenizer_whose_pieces_depend_on_their_place_cuts_whole_texts() -> None:
    transformers = pytest.importorskip("transformers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=OPEN))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="first")
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=60, special_tokens=[OPEN, CLOSE], show_progress=False
    )
    made.train_from_iterator(["user assistant system what is four"] * 5, trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=made)
    cutter = Cutter(fast)
    for text in [f"what{CLOSE}four is{CLOSE}four"] * 5:
        assert cutter.cut(text).ids.tolist() == fast(text, add_special_tokens=False)["input_ids"]
