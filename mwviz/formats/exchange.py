"""Records of request/response logs to the two bodies in them, whichever way they are wrapped.

A request may stand under a name of its own, beside the response, inside an HTTP message or as JSON
text. It knows how APIs are told apart, not what their bodies mean.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Literal, NamedTuple

from mwviz.formats.fields import FieldError, Json, Object, label
from mwviz.formats.percall import ONLY_ROLLOUT
from mwviz.formats.records import Record
from mwviz.formats.streams import assembled

Api = Literal["chat", "responses", "anthropic", "text"]

REQUESTS = ("request", "request_body", "req", "kwargs", "request_data", "body")
RESPONSES = ("response", "response_body", "resp", "response_data", "raw_response")
WRAPPERS = ("body", "json", "json_data", "data", "content", "text")
PROMPTS = ("messages", "input", "prompt")
ANSWERS = ("choices", "output", "content", "error", "stop_reason")
ROLLOUTS = (
    *("rollout", "rollout_id", "session_id", "trace_id", "conversation_id", "thread_id"),
    *("run_id", "session"),
)
MAX_WRAPPERS = 4
"""Layers that are unwrapped to find a body."""


class Exchange(NamedTuple):
    """One request with its response."""

    record: Object
    request: Object
    response: Object
    line: int
    api: Api


def exchange(value: Json, line: int = 0) -> Exchange | None:
    """The exchange that the record holds; None if it holds none."""
    if not isinstance(value, dict):
        return None
    response = next((b for k in RESPONSES if (b := _body(value.get(k), ANSWERS))), None)
    if response is None:
        return None
    request = next((b for k in REQUESTS if (b := _body(value.get(k), PROMPTS))), None)
    if request is None or "messages" in value:
        request = value if any(key in value for key in PROMPTS) else request
    api = _api(request, response) if request else None
    return Exchange(value, request, response, line, api) if request and api else None


def holds(head: Sequence[Record], api: Api) -> bool:
    """Whether the first exchange among the records is of this API."""
    found = next((e for record in head if (e := exchange(record.value))), None)
    return found is not None and found.api == api


def rollout_name(record: Object, request: Object) -> str:
    """What the log calls the rollout: in the record, its metadata or the request's."""
    places = [record, record.get("metadata"), request.get("metadata")]
    for place in places:
        for key in ROLLOUTS:
            if isinstance(place, dict) and (found := _name(place, key)):
                return found
    return ONLY_ROLLOUT


def _name(place: Object, key: str) -> str | None:
    try:
        return label(place, key)
    except FieldError:
        return None


def _body(value: Json, keys: Sequence[str]) -> Object | None:
    """The object with one of the keys, through wrappers and JSON text."""
    for _ in range(MAX_WRAPPERS):
        if isinstance(value, str | list):
            value = _decoded(value)
        if not isinstance(value, dict):
            return None
        if any(key in value for key in keys) and not _http(value):
            return value
        value = next((value[key] for key in WRAPPERS if key in value), None)
    return None


def _http(value: Object) -> bool:
    """Whether the object is an HTTP message, whose `content` is its body."""
    return "headers" in value or "status_code" in value


def _decoded(value: str | list[Json]) -> Json:
    """The body of a stream or of JSON text; None if it is neither."""
    try:
        if isinstance(value, list) or value.lstrip().startswith(("data:", "event:")):
            return assembled(value)
        body: Json = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return body


def _api(request: Object, response: Object) -> Api | None:
    if "messages" not in request:
        return _api_without_messages(request, response)
    if response.get("type") == "message" or isinstance(response.get("content"), list):
        return "anthropic"
    if "choices" in response:
        return "chat"
    if response.get("type") == "error" or "system" in request:
        return "anthropic"
    return "chat" if "error" in response else None


def _api_without_messages(request: Object, response: Object) -> Api | None:
    failed = "error" in response
    if "input" in request:
        whole = "output" in response or response.get("object") == "response"
        return "responses" if whole or failed else None
    return "text" if "prompt" in request and ("choices" in response or failed) else None
