"""Dumps of a LangChain callback: a record when a chat model starts, one with what it gave.

The callback sees the messages after every middleware, so edits of the request alone show too.
Message ids are left aside: an edited message keeps its id there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.calls import read_generic
from mwviz.formats.chat import Pool, read_message
from mwviz.formats.fields import FieldError, Json, Object, child, label, objects, shown
from mwviz.formats.fields import string as text
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.rollout import Call, Hint, Message, Rollout

MAIN = "main"
ROLES = {"AIMessageChunk": "assistant", "chat": "user", "remove": "user"}
SUMMARY = "summarization"
"""What the summarising middleware calls itself, in messages and in the metadata of its calls."""


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is the start of a run with LangChain messages."""
    return any(_is_start(record.value) for record in head)


def _is_start(value: Json) -> bool:
    if not isinstance(value, dict) or "run_id" not in value:
        return False
    messages = value.get("messages")
    return isinstance(messages, list) and all(
        isinstance(message, dict) and message.keys() >= {"type", "data"} for message in messages
    )


def reads(records: Records) -> list[Rollout]:
    """One rollout a thread, its calls in the order of their starts."""
    starts: list[Record] = []
    answers: dict[str, Record] = {}
    for record in records:
        value = record.value
        if _is_start(value):
            starts.append(record)
        elif isinstance(value, dict) and isinstance(run := value.get("run_id"), str):
            answers[run] = record
        else:
            records.drop(record, f"{shown(value)}, expected the start or the end of a run")
    lost = answers.keys() - {_run(start) for start in starts}
    for run in sorted(lost):
        records.drop(answers[run], f"the end of a run {shown(run)} without its start")

    summaries: set[str] = set()

    def rows(record: Record, pool: Pool) -> Iterator[Row]:
        start = record.value
        assert isinstance(start, dict)
        answer = answers.get(_run(record))
        end = answer.value if answer and isinstance(answer.value, dict) else {}
        metadata = child(start, "metadata") or {}
        call = _call(start, end, record.line, pool)
        name = label(metadata, "thread_id") or "langchain"
        new = _summaries(start) - summaries
        summaries.update(new)
        hints = (Hint("summary", "the middleware put a new summary in"),) if new else ()
        yield Row(name, replace(call, lineage=_lineage(metadata, record.line), hints=hints))

    return gather(records, rows, given=starts)


def _run(record: Record) -> str:
    value = record.value
    run = value.get("run_id") if isinstance(value, dict) else None
    return run if isinstance(run, str) else ""


def _summaries(start: Object) -> set[str]:
    """Ids of the messages that the summarising middleware wrote."""
    found: set[str] = set()
    for message in objects(start, "messages") or ():
        data = child(message, "data") or {}
        if (child(data, "additional_kwargs") or {}).get("lc_source") == SUMMARY:
            found.add(text(data, "id") or "")
    return found


def _lineage(metadata: Object, line: int) -> str:
    """The agent: a summariser's call stands by itself, a sub-graph goes by its place."""
    if source := text(metadata, "lc_source"):
        return f"{source}, line {line}"
    place = text(metadata, "langgraph_checkpoint_ns") or ""
    return place.rpartition("|")[0] or MAIN


def _call(start: Object, end: Object, line: int, pool: Pool) -> Call:
    answer = [_message(value, line, pool) for value in objects(end, "completion") or ()]
    call = read_generic(
        {
            "call": _run(Record(line, 0, start)),
            "messages": [],
            "tools": start.get("tools"),
            "usage": _usage(end),
            "model": text(child(start, "metadata") or {}, "ls_model_name"),
            "temperature": (child(start, "metadata") or {}).get("ls_temperature"),
            "finish": "error" if end.get("error") else None,
        },
        line,
        pool,
    )
    prompt = [_message(value, line, pool) for value in objects(start, "messages") or ()]
    return replace(call, prompt=(*(call.prompt or ()), *prompt), completion=tuple(answer) or None)


def _message(value: Object, line: int, pool: Pool) -> Message:
    data = child(value, "data")
    kind = text(value, "type") or ""
    if data is None:
        raise FieldError(f"a message of type {shown(kind)} has no data")
    chat: Object = {**data, "role": ROLES.get(kind, kind)}
    content = data.get("content")
    blocks = content if isinstance(content, list) else []
    if any(isinstance(block, dict) and block.get("type") == "tool_use" for block in blocks):
        chat.pop("tool_calls", None)
    extra = child(data, "additional_kwargs") or {}
    if thought := extra.get("reasoning_content"):
        chat["reasoning_content"] = thought
    found = read_message(chat, line=line)
    if extra.get("lc_source") == SUMMARY:
        found = replace(found, mark="summary")
    return pool(found)


def _usage(end: Object) -> Json:
    """Token counts; LangChain's input tokens include the cached ones."""
    messages = objects(end, "completion") or [{}]
    given = child(child(messages[-1], "data") or {}, "usage_metadata") if messages else None
    if given is None:
        return None
    details = child(given, "input_token_details") or {}
    return {
        "prompt_tokens": given.get("input_tokens"),
        "completion_tokens": given.get("output_tokens"),
        "cached_tokens": details.get("cache_read"),
    }
