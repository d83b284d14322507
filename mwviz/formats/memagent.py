"""MemAgent's memory log: of every call the piece of text it read and the memory it wrote.

A call is asked with the question, the memory that the call before wrote, and the next piece; a last
call with the question and the memory gives the answer. Read in
`taskutils/memory_eval/utils/recurrent.py`: the log (a line a call with `_id`, `question`, `chunk`,
`memory`, and `answer` in the last) is that of Deskearth/MemAgent (commit 4e87873), written where
the variable MEMORY_LOG_FILE names a file; the form `conversation` (a list of [prompt, reply]
messages, exact) is that of its successor InfMem (commit 4f4de32). BytedTsinghua-SIA/MemAgent's own
results (commit 7e63acc) hold the last reply only. What is not known: the words around the parts of
a prompt, and text of a reply that is cut off before it becomes the memory (thoughts).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mwviz.formats.chat import Pool, read_message
from mwviz.formats.fields import FieldError, Json, Object, label, shown, string
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.formats.step_calls import WORDS, said, step
from mwviz.rollout import Call, Hint, Message, Rollout

LOG = frozenset({"_id", "question", "chunk", "memory"})
TALK = "conversation"
PAIR = 2
MEMORY = Hint("summary", "the memory stands for all text read before it")
CUT = "thoughts that were cut off its reply are not in the file"


def detects(head: Sequence[Record]) -> bool:
    """Whether a record is a line of the memory log, or holds calls as pairs of messages."""
    return any(_is_log(record.value) or _pairs(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout an `_id` of the log, or a record with pairs."""
    return gather(records, _Log().rows)


def _is_log(value: Json) -> bool:
    return isinstance(value, dict) and value.keys() >= LOG


def _pairs(value: Json) -> list[list[Object]]:
    found = value.get(TALK) if isinstance(value, dict) else None
    if not isinstance(found, list):
        return []
    pairs = [[m for m in pair if isinstance(m, dict)] for pair in found if isinstance(pair, list)]
    return [pair for pair in pairs if len(pair) == PAIR and all("role" in m for m in pair)]


@dataclass(slots=True)
class _Log:
    """The memory that each question's last call wrote."""

    memory: dict[str, Message] = field(default_factory=dict)

    def rows(self, record: Record, pool: Pool) -> Iterator[Row]:
        value, line = record.value, record.line
        if isinstance(value, dict) and _is_log(value):
            name = label(value, "_id") or f"question on line {line}"
            yield Row(name, self._call(name, value, line, pool), (CUT,))
            return
        pairs = _pairs(value)
        if not pairs or not isinstance(value, dict):
            raise FieldError(f"{shown(value)}, expected a line with question, chunk and memory")
        name = label(value, "_id") or f"question on line {line}"
        for at, (asked, answered) in enumerate(pairs):
            reply = read_message(answered, line=line)
            prompt = (pool(read_message(asked, line=line)),)
            hint = MEMORY if at else None
            call = step(prompt, reply.text, line=line, hint=hint, content="exact")
            yield Row(name, call)

    def _call(self, name: str, value: Object, line: int, pool: Pool) -> Call:
        question, chunk = string(value, "question") or "", string(value, "chunk")
        memory, answer = string(value, "memory") or "", string(value, "answer")
        before = self.memory.get(name)
        parts = [said("user", question, line=line)]
        if before is not None:
            parts.append(before)
        if chunk:
            parts.append(said("user", chunk, line=line))
        self.memory[name] = pool(said("user", memory, line=line, mark="summary"))
        hint = None if before is None else MEMORY
        reply = memory if answer is None else answer
        return step([pool(p) for p in parts], reply, line=line, hint=hint, holes=[WORDS])
