"""What went over the wire to the bodies a call is read from: JSON, or a stream of events."""

from __future__ import annotations

import json

from mwviz.formats.exchange import Api
from mwviz.formats.fields import FieldError, Object, shown
from mwviz.formats.streams import assembled
from mwviz.recorder.calllog import Answer

REFUSED = 400
"""Lowest HTTP status of a request that failed."""
DONE = b"[DONE]"
TAIL = 80
"""Bytes that hold the last line of a stream, if that line says that it is done."""
HEAD = 4_096
"""Bytes in which a stream names its first event, if it names any."""
LAST_EVENTS = (
    *(b"event: message_stop", b"event: error"),
    *(b"event: response.completed", b"event: response.incomplete", b"event: response.failed"),
)


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
    if not stream.endswith((b"\n", b"\r")):
        return False
    end = bytes(stream[-TAIL:]).rstrip(b"\r\n")
    line = end[max(end.rfind(b"\n"), end.rfind(b"\r")) + 1 :]
    if line.startswith(b"data:") and line[len(b"data:") :].strip() == DONE:
        return True
    if b"event:" not in stream[:HEAD]:
        return False  # its events have no names: a look through all of it would find none
    start = stream.rfind(b"\nevent:") + 1
    name, _, rest = bytes(stream[start:]).partition(b"\n")
    return name.strip() in LAST_EVENTS and b"data:" in rest


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
    told, body = request_body(request), response_body(response)
    unread = None
    if finish is None and not body:
        unread = f"{shown(response[:80])}, expected JSON or a stream of events"
    return Answer(api, told, body, started, finish, unread)
