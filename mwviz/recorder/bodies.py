"""What went over the wire to the bodies a call is read from: JSON, or a stream of events."""

from __future__ import annotations

import json

from mwviz.formats.exchange import Api
from mwviz.formats.fields import FieldError, Object, shown
from mwviz.formats.streams import assembled
from mwviz.recorder.calllog import Answer

REFUSED = 400
"""Lowest HTTP status of a request that failed."""
DONE = b"data: [DONE]"
LAST_EVENTS = ("message_stop", "response.completed", "response.incomplete", "response.failed")
TAIL = 65_536
"""Bytes at the end of a stream in which its last event is looked for."""


def request_body(content: bytes) -> Object:
    """The JSON object of a request.

    Raises:
        FieldError: It is none.
    """
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise FieldError(f"request {shown(content[:80])}, expected a JSON object") from None
    if not isinstance(body, dict):
        raise FieldError(f"request {shown(body)}, expected a JSON object")
    return body


def response_body(content: bytes) -> Object:
    """The JSON object of a response, or what its stream amounts to; empty if it is neither."""
    text = content.decode("utf-8", "replace")
    if text.lstrip().startswith(("data:", "event:", ":")):
        return assembled(text) or {}
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def ended(stream: bytes | bytearray) -> bool:
    """Whether the last event of a stream is in; a client may leave right after it."""
    tail = bytes(stream[-TAIL:]).rstrip(b"\r\n")
    if len(tail) == len(stream[-TAIL:]):
        return False
    if tail.endswith(DONE):
        return tail[: -len(DONE)].endswith((b"\n", b"\r")) or len(tail) == len(DONE)
    event = tail.rpartition(b"\nevent:")[2].partition(b"\n")[0].strip()
    return event.decode("latin-1") in LAST_EVENTS


def answer(
    api: Api, request: bytes, response: bytes, *, started: float, status: int, whole: bool
) -> Answer:
    """One exchange, ready for the log.

    Args:
        api: of the endpoint.
        request: body as the client sent it.
        response: body as far as it came, decoded from its content encoding.
        started: seconds since the epoch.
        status: of the response; 0 if there was none.
        whole: whether the response came to its end.

    Raises:
        FieldError: The request is no JSON object.
    """
    finish = "error" if status >= REFUSED or status == 0 else None
    if not (whole or ended(response)):
        finish = "aborted"
    return Answer(api, request_body(request), response_body(response), started, finish)
