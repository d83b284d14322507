"""One exchange with a chat-completions endpoint to calls: one a choice.

Engines that return token ids (`return_token_ids` of vLLM and SGLang) give exact prompts and
completions; the prompt's stand in the response or in its choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from mwviz.formats.call_fields import read_shared_usage
from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.exchange import Exchange
from mwviz.formats.fields import Json, Object, child, label, number, objects, string, token_ids
from mwviz.rollout import Call


def chat_calls(found: Exchange, pool: Pool) -> Iterator[Call]:
    """The call of each choice; one without a completion if the request failed."""
    response, request = found.response, found.request
    whole: Object = {
        "call": label(response, "id") or "",
        "messages": request.get("messages"),
        "tools": request.get("tools") or request.get("functions"),
        "prompt_ids": response.get("prompt_token_ids"),
        "usage": response.get("usage"),
        "temperature": request.get("temperature"),
        "model": string(response, "model") or string(request, "model"),
        "time": number(response, "created"),
        "finish": "error" if response.get("error") else None,
    }
    choices = objects(response, "choices") or []
    if not choices:
        yield replace(read_generic(whole, found.line, pool), finish="error")
    for at, choice in enumerate(choices):
        suffix = f"#{at}" if at else ""
        call = _of_choice(whole, choice, found.line, pool=pool, suffix=suffix)
        usage = read_shared_usage(child(response, "usage"), choices=len(choices))
        yield replace(call, usage=usage)


def _of_choice(whole: Object, choice: Object, line: int, *, pool: Pool, suffix: str) -> Call:
    ids = token_ids(choice, "token_ids")
    prompt_ids = None if ids is None else choice.get("prompt_token_ids") or whole["prompt_ids"]
    return read_generic(
        {
            **whole,
            "prompt_ids": prompt_ids,
            "call": f"{whole['call']}{suffix}" if whole["call"] else "",
            "completion": choice.get("message"),
            "completion_ids": choice.get("token_ids"),
            "logprobs": None if ids is None else _logprobs(choice, len(ids)),
            "finish": choice.get("finish_reason") or whole["finish"],
        },
        line,
        pool,
    )


def _logprobs(choice: Object, size: int) -> list[Json] | None:
    """One value a completion token; None if the response has another number of them."""
    content = objects(child(choice, "logprobs") or {}, "content")
    if content is None or len(content) != size:
        return None
    return [_finite(item.get("logprob")) for item in content]


def _finite(value: Json) -> Json:
    return None if isinstance(value, float) and not math.isfinite(value) else value
