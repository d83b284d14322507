"""Token ids and log-probabilities of engines that can give them, without the client noticing.

vLLM and SGLang answer `return_token_ids` and `logprobs` on their OpenAI endpoints; what the client
did not ask for is taken out of the answer again. SGLang gives no ids while it streams chat.
"""

from __future__ import annotations

import json
from typing import Literal, NamedTuple

from mwviz.formats.exchange import Api
from mwviz.formats.fields import FieldError, Json, Object
from mwviz.recorder.bodies import request_body

Engine = Literal["vllm", "sglang"]
ENGINES: tuple[Engine, ...] = ("vllm", "sglang")
ENGINE_APIS: tuple[Api, ...] = ("chat", "text")
"""APIs on which they give ids."""

IDS = "return_token_ids"
GIVEN_IDS = ("prompt_token_ids", "token_ids")
DATA = b"data:"


class Asked(NamedTuple):
    """A request that asks for more than the client did."""

    content: bytes
    strip: tuple[str, ...]
    """Fields of the answer that the client did not ask for."""


def engine_of(models: Json) -> Engine | None:
    """The engine that answered `/v1/models`, by the owner it names; None for any other."""
    listed = models.get("data") if isinstance(models, dict) else None
    for model in listed if isinstance(listed, list) else ():
        owner = model.get("owned_by") if isinstance(model, dict) else None
        found = next((engine for engine in ENGINES if owner == engine), None)
        if found is not None:
            return found
    return None


def ask(content: bytes, api: Api, engine: Engine | None) -> Asked:
    """The request with what makes the engine give ids; unchanged if it cannot."""
    unchanged = Asked(content, ())
    if engine is None or api not in ENGINE_APIS:
        return unchanged
    try:
        body = request_body(content)
    except FieldError:
        return unchanged
    if engine == "sglang" and api == "chat" and body.get("stream"):
        return unchanged
    strip: list[str] = []
    if not body.get(IDS):
        body[IDS] = True
        strip += GIVEN_IDS
    if body.get("logprobs") in (None, False):
        body["logprobs"] = True if api == "chat" else 1
        strip.append("logprobs")
    return Asked(json.dumps(body).encode(), tuple(strip)) if strip else unchanged


def stripped(body: bytes, strip: tuple[str, ...]) -> bytes:
    """A JSON response without the fields; what is no JSON object stays as it is."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(value, dict):
        return body
    _strip(value, strip)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _strip(value: Object, strip: tuple[str, ...]) -> None:
    choices = value.get("choices")
    for place in (value, *(choices if isinstance(choices, list) else ())):
        if isinstance(place, dict):
            for key in strip:
                if place.pop(key, None) is not None and key == "logprobs":
                    place[key] = None


class EventStripper:
    """A stream of events without the fields, given on as soon as a line of it is whole."""

    def __init__(self, strip: tuple[str, ...]) -> None:
        self._strip = strip
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """What can be passed on now."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return b"".join(self._line(line) + b"\n" for line in lines)

    def end(self) -> bytes:
        """What is left when the stream has ended."""
        rest, self._rest = self._rest, b""
        return self._line(rest) if rest else b""

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(DATA):
            return line
        ending = b"\r" if line.endswith(b"\r") else b""
        data = line.removeprefix(DATA).strip()
        return DATA + b" " + stripped(data, self._strip) + ending
