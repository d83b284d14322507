"""ReSum results (WebResummer): one list of messages, in which a summary starts the context anew.

Read in `WebAgent/WebResummer/src/` of Alibaba-NLP/WebAgent (react_agent.py at commit f914a88;
main.py in a copy at 44d09d7). The list is the whole trajectory: after a summary (made by another
model) the context is the system message and one user message with the question and that summary,
which is appended to the list like any other; nothing marks it but that it begins with the question.
Lists of the sister agents, which never summarise, are read alike. What is not known: the
summariser's own calls; the words that replace the last message when the context is at its end
(`termination` tells that they did).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mwviz.formats.chat import Pool, read_message
from mwviz.formats.fields import FieldError, Json, label, objects, shown, string
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.formats.step_calls import step
from mwviz.rollout import Call, Hint, Hole, Message, Rollout

RESULT = frozenset({"question", "messages", "prediction", "termination"})
OPENS = "Question: "
SUMMARY = Hint("summary", "the context was started anew from a summary")
LIMIT = "limit"
LAST = "words of the harness took the place of the last message, which are not in the file"
SUMMARISER = "the summaries were made by calls that are not in the file"


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a result with its messages and how it ended."""
    return any(_is_result(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a result."""
    return gather(records, _rows)


def _is_result(value: Json) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() >= RESULT
        and isinstance(value["messages"], list)
        and any(isinstance(item, dict) for item in value["messages"])
    )


def _rows(record: Record, pool: Pool) -> Iterator[Row]:
    value, line = record.value, record.line
    if not _is_result(value) or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a result with messages and termination")
    name = f"{label(value, 'rollout_id') or 'rollout'}, line {line}"
    start = OPENS + (string(value, "question") or "")
    calls: list[Call] = []
    history: list[Message] = []
    hint: Hint | None = None
    summaries = False
    for item in objects(value, "messages") or ():
        message = pool(read_message(item, line=line))
        if message.role == "assistant":
            calls.append(step(history, message.text, line=line, hint=hint))
            hint = None
        elif calls and message.role == "user" and message.text.startswith(start):
            history = [kept for kept in history if kept.role == "system"]
            message, hint, summaries = pool(replace(message, mark="summary")), SUMMARY, True
        history.append(message)
    if calls and LIMIT in (string(value, "termination") or ""):
        last = calls[-1]
        calls[-1] = replace(last, content="partial", holes=(*last.holes, Hole(LAST)))
    yield from (Row(name, call, (SUMMARISER,) if summaries else ()) for call in calls)
