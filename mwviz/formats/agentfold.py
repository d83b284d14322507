"""AgentFold results: the prompt and the reply of every turn in one text, `full_traj`.

Read in `WebAgent/AgentFold/infer.py` of Alibaba-NLP/WebAgent (commit 9ef32e9): each turn's whole
user message is written, then the reply. Earlier steps stand in that message, some of them folded:
a reply's `<compress>` block names the range of steps (`compress_range`) that one text replaces in
the next prompt. A turn is repeated up to five times until it can be read; only its last reply is
written. The system message with the tools is a constant of the program. What is not known: replies
that were thrown away, and where texts of the trace itself hold the marks of a turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, label, shown
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.formats.step_calls import SYSTEM, said, step, text_of
from mwviz.rollout import Hint, Rollout

TEXT = "full_traj"
TURN = "[START OF A TURN] {}\n\n[START OF USER PROMPT]\n"
REPLY = "\n\n[START OF ASSISTANT]\n"
END = "\n\n"
WRITTEN = Hint("rewrite", "the step before was written into the user's message, without thoughts")
FOLD = re.compile(r"<compress>(.*?)</compress>", re.DOTALL)
REPEATED = "replies that its harness could not read and asked for again are not in the file"
MARKS = "a text in it holds the mark of a reply: where its prompt ended is a guess"


def detects(head: Sequence[Record]) -> bool:
    """Whether a record holds the text of turns."""
    return any(_text(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a record."""
    return gather(records, _rows)


def _text(value: Json) -> str:
    text = text_of(value.get(TEXT)) if isinstance(value, dict) else ""
    return text if text.startswith(TURN.format(0)) else ""


def _rows(record: Record, pool: Pool) -> Iterator[Row | FieldError]:
    value, text = record.value, _text(record.value)
    if not text or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a result with the text of its turns ({TEXT})")
    name = _name(value, record.line)
    hint: Hint | None = None
    for number, turn in enumerate(_turns(text)):
        prompt, sign, reply = turn.partition(REPLY)
        if not sign:
            yield FieldError(f"turn {number} has no reply")
            continue
        message = pool(said("user", prompt, line=record.line))
        call = step([message], reply, line=record.line, hint=hint, holes=[SYSTEM])
        yield Row(name, call, (REPEATED, MARKS) if REPLY in reply else (REPEATED,))
        hint = _fold(reply)


def _name(value: Object, line: int) -> str:
    return label(value, "id") or f"question on line {line}"


def _turns(text: str) -> Iterator[str]:
    """What stands between one turn's mark and the next; turns count up from 0."""
    number, start = 0, len(TURN.format(0))
    while True:
        number += 1
        mark = TURN.format(number)
        end = text.find(mark, start)
        yield (text[start:] if end < 0 else text[start:end]).removesuffix(END)
        if end < 0:
            return
        start = end + len(mark)


def _fold(reply: str) -> Hint:
    """What a reply did to the steps that the next prompt shows."""
    found = FOLD.search(reply)
    if found is None:
        return WRITTEN
    try:
        steps = json.loads(found[1])["compress_range"]
        return Hint("fold", f"steps {int(steps[0])} to {int(steps[-1])} in one text")
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        return Hint("fold")
