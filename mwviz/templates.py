"""A model's own chat template: chats as it renders them, and the traps that it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Chat = list[dict[str, Any]]

ASK, ANSWER, THOUGHT, TOOL = "pqxzask", "pqxzanswer", "pqxzthought", "pqxztool"
"""Words of the probes that no template holds."""
CALLING = {"type": "function", "function": {"name": TOOL, "arguments": {"a": "b"}}}
OFFERED = {
    "type": "function",
    "function": {
        "name": TOOL,
        "description": ASK,
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
    },
}


class Trap(NamedTuple):
    """One way in which a template does not send what it is given."""

    name: str
    what: str


class RefusedError(Exception):
    """The template raises on such a chat."""


def render(
    tokenizer: PreTrainedTokenizerBase, chat: Chat, *, opened: bool = False, tools: Any = None
) -> str:
    """The chat as text.

    Args:
        tokenizer: with the template.
        chat: messages as the template takes them.
        opened: whether the generation prompt stands at the end.
        tools: functions offered, None if there are none.

    Raises:
        RefusedError: The template does not take such a chat.
    """
    options = {"tools": tools} if tools else {}
    try:
        text = tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=opened, **options
        )
    except Exception as error:  # templates raise what they like
        raise RefusedError(str(error).splitlines()[0] if str(error) else "no reason") from error
    assert isinstance(text, str)
    return text


def has_template(tokenizer: PreTrainedTokenizerBase | None) -> TypeGuard[PreTrainedTokenizerBase]:
    """Whether the tokenizer can render chats, and say where in the text its tokens stand."""
    return bool(tokenizer and tokenizer.chat_template and getattr(tokenizer, "is_fast", False))


def probe(tokenizer: PreTrainedTokenizerBase) -> tuple[Trap, ...]:
    """The traps of a tokenizer's chat template, found by rendering small chats.

    Returns:
        One trap for each; empty if there is none, or no template.
    """
    if not tokenizer.chat_template:
        return ()
    probes = (
        _not_prefix_stable,
        _strips_thinking,
        _other_opening,
        _injects_system,
        _reads_special_tokens,
        _drops_tool_calls,
        _drops_tools,
        _refuses_empty_content,
        _trims_content,
        _tells_the_date,
    )
    return tuple(trap for look in probes if (trap := look(tokenizer)))


def said(role: str, text: str | None, **more: Any) -> dict[str, Any]:
    """A message as templates take it."""
    return {"role": role, "content": text, **more}


def _tried(tokenizer: PreTrainedTokenizerBase, *chat: dict[str, Any], **options: Any) -> str | None:
    try:
        return render(tokenizer, list(chat), **options)
    except RefusedError:
        return None


TURN = (said("user", ASK), said("assistant", ANSWER))


def _not_prefix_stable(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    before, after = _tried(tokenizer, *TURN), _tried(tokenizer, *TURN, said("user", ASK))
    if before is None or after is None or after.startswith(before):
        return None
    return Trap("prefix", "a further turn changes how the turns before it read")


def _strips_thinking(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    shapes = (
        said("assistant", ANSWER, reasoning_content=THOUGHT),
        said("assistant", f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"),
    )
    for answer in shapes:
        now = _tried(tokenizer, TURN[0], answer) or ""
        later = _tried(tokenizer, TURN[0], answer, said("user", ASK)) or ""
        if THOUGHT in now and ANSWER in later and THOUGHT not in later:
            return Trap("thinking_strip", "reasoning goes once another user turn follows")
    if THOUGHT not in (_tried(tokenizer, TURN[0], shapes[0]) or THOUGHT):
        return Trap("reasoning_dropped", "reasoning beside the content is never rendered")
    return None


def _other_opening(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    asked, answered = _tried(tokenizer, TURN[0], opened=True), _tried(tokenizer, *TURN)
    if asked is None or answered is None or answered.startswith(asked):
        return None
    return Trap("generation_prompt", "an answer is opened otherwise than it reads in the history")


def _injects_system(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    alone = _tried(tokenizer, TURN[0])
    if alone is None or ASK not in alone:
        return None
    header = alone[: alone.index(ASK)]
    turns = _tried(tokenizer, *TURN, TURN[0]) or ""
    second = turns[: turns.rindex(ASK)] if ASK in turns else ""
    shared = 0
    while shared < len(header) and header[-1 - shared :] == second[-1 - shared :]:
        shared += 1
    left = header[: len(header) - shared]
    for special in tokenizer.all_special_tokens:
        left = left.replace(special, "")
    if not any(letter.isalpha() for letter in left):
        return None
    return Trap("system_injection", "a system text of its own stands before a chat that has none")


def _reads_special_tokens(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    for special in filter(None, tokenizer.all_special_tokens):
        token = _ids(tokenizer, special)[0]
        plain, quoted = (
            _tried(tokenizer, said("user", text)) or "" for text in (ASK, f"{ASK} {special} {ASK}")
        )
        if _ids(tokenizer, quoted).count(token) > _ids(tokenizer, plain).count(token):
            return Trap("special_tokens", f"{special} within a text becomes the token itself")
    return None


def _drops_tool_calls(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    text = _tried(tokenizer, TURN[0], said("assistant", "", tool_calls=[CALLING]))
    if text is None:
        return Trap("tool_calls_refused", "a message with tool calls is refused")
    if TOOL in text:
        return None
    return Trap("tool_calls_dropped", "tool calls beside the content are never rendered")


def _drops_tools(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    text = _tried(tokenizer, TURN[0], tools=[OFFERED])
    if text is None or TOOL in text:
        return None
    return Trap("tools_dropped", "the list of tools is never rendered")


def _refuses_empty_content(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    message = said("assistant", None, tool_calls=[CALLING])
    text = _tried(tokenizer, TURN[0], message)
    if text is None:
        return Trap("content_none", "a message whose content is null is refused")
    return Trap("content_none", "a null content reads None") if "None" in text else None


def _trims_content(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    text = _tried(tokenizer, said("user", f"\n  {ASK}  \n"))
    if text is None or f"\n  {ASK}  \n" in text:
        return None
    return Trap("content_trimmed", "white space around a content goes")


def _tells_the_date(tokenizer: PreTrainedTokenizerBase) -> Trap | None:
    if "strftime_now" not in str(tokenizer.chat_template):
        return None
    return Trap("date", "the date of the rendering stands in it, so it changes from day to day")


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    found: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return found
