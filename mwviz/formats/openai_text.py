"""One exchange with a text-completions endpoint to calls: a prompt without roles, raw or as ids.

Engines that return token ids (`return_token_ids` of vLLM and SGLang) give exact prompts and
completions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mwviz.formats.call_fields import read_shared_usage
from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool
from mwviz.formats.exchange import Exchange
from mwviz.formats.fields import FieldError, Json, Object, child, label, number, objects, shown
from mwviz.formats.fields import string as text
from mwviz.rollout import Call

ROLE = "user"
"""Role of a raw prompt, which has none."""
LINEAGE = "main"
"""A raw prompt shows no agent apart: all calls of a rollout are taken as one agent's."""


def text_calls(found: Exchange, pool: Pool) -> Iterator[Call]:
    """The call of each choice; one without a completion if the request failed."""
    response, request = found.response, found.request
    prompts = _prompts(request.get("prompt"))
    choices = objects(response, "choices") or []
    per_prompt = max(1, len(choices) // len(prompts))
    for at, choice in enumerate(choices or [{}]):
        prompt = prompts[min(at // per_prompt, len(prompts) - 1)]
        call = _call(found, prompt, choice, pool=pool, suffix=f"#{at}" if at else "")
        usage = read_shared_usage(
            child(response, "usage"), choices=len(choices), prompts=len(prompts)
        )
        yield replace(call, usage=usage)


def _prompts(value: Json) -> list[str | list[Json]]:
    """The prompts of a request: text or ids, one or several.

    Raises:
        FieldError: It is neither.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(item, int) for item in value):
            return [value]
        several = [item for item in value if isinstance(item, str | list)]
        if len(several) == len(value):
            return several
    raise FieldError(f"prompt is {shown(value)}, expected text, token ids or a list of them")


def _call(
    found: Exchange, prompt: str | list[Json], choice: Object, *, pool: Pool, suffix: str
) -> Call:
    response, request = found.response, found.request
    name = label(response, "id") or ""
    ids = prompt if isinstance(prompt, list) else None
    whole: Object = {
        "call": f"{name}{suffix}" if name else "",
        "lineage": LINEAGE,
        "completion": choice.get("text"),
        "temperature": request.get("temperature"),
        "model": text(response, "model") or text(request, "model"),
        "time": number(response, "created"),
        "finish": text(choice, "finish_reason") if choice else "error",
        "prompt_ids": choice.get("prompt_token_ids") or response.get("prompt_token_ids") or ids,
        "completion_ids": choice.get("token_ids"),
    }
    if isinstance(prompt, str):
        whole["messages"] = [{"role": ROLE, "content": prompt}]
    if isinstance(sampled := choice.get("token_ids"), list):
        whole["logprobs"] = _logprobs(choice, len(sampled))
    return read_generic(whole, found.line, pool)


def _logprobs(choice: Object, size: int) -> Json:
    """One value a sampled token; None if the response has another number of them."""
    given = (child(choice, "logprobs") or {}).get("token_logprobs")
    return given if isinstance(given, list) and len(given) == size else None
