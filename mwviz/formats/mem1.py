"""MEM1 rows: a question `q`, then of every turn k its state `t<k>`, reply `r<k>` and result `i<k>`.

Read in `Mem1/inference/` of MIT-MI/MEM1 (data_pipelines.py at commit 08cfff1, models.py and
generate_rollout.py at 31a8285). A prompt is the question and, as the beginning of the assistant's
message, the reply and the result of the turn before: all older ones are gone. Rows with `memories`
are of its rival that retrieves notes: there the prompt is the notes and that last turn, without the
question. What is not known: whether a row without memories was made with `--use_mem1` (a run
without it kept the whole past; only the file's name may say so), and the text of a reply that holds
neither a search nor an answer (its state is).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, label, members, number, shown, string
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.formats.step_calls import WORDS, said, step, text_of
from mwviz.rollout import Call, Hint, Message, Rollout

STATE = Hint("summary", "the last reply's state stands for all before it")
MODE = (
    "read as a run with --use_mem1, which the row does not say; its reply goes on in the "
    "assistant's message that the prompt begins"
)
UNREAD = "only the state of the reply is in the file"


def detects(head: Sequence[Record]) -> bool:
    """Whether a record holds a question with the state of its first turn."""
    return any(_is_row(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a row."""
    return gather(records, _rows)


def _is_row(value: Json) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(k), str) for k in ("q", "t0"))


def _rows(record: Record, pool: Pool) -> Iterator[Row]:
    value = record.value
    if not _is_row(value) or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected a question q with its turns t0, r0, i0 ...")
    name = label(value, "index") or f"question on line {record.line}"
    match = value.get("Exact_match")
    reward = float(match) if isinstance(match, bool) else number(value, "Exact_match")
    notes, line = members(value, "memories"), record.line
    question = pool(said("user", string(value, "q") or "", line=line))
    past = ""
    for turn in range(len(value)):
        state = string(value, f"t{turn}")
        if state is None:
            return
        reply = string(value, f"r{turn}")
        if notes is not None:
            call = _with_notes(notes, turn, question, past, reply or state or None, line)
        else:
            prompt = [question, said("assistant", past, line=line)] if past else [question]
            hint = STATE if turn > 1 else None
            call = step(prompt, reply or state or None, line=line, hint=hint)
        doubts = () if reply else (UNREAD,)
        yield Row(name, call, doubts if notes is not None else (MODE, *doubts), reward)
        past = (reply or "") + (string(value, f"i{turn}") or "")


def _with_notes(
    notes: list[Json], turn: int, question: Message, past: str, reply: str | None, line: int
) -> Call:
    """A call of the rival: the notes that were found for it, and the last turn alone."""
    found = text_of(notes[turn]) if turn < len(notes) else ""
    prompt = [said("system", found, line=line)] if found else []
    prompt.append(said("user", past, line=line) if past else question)
    return step(prompt, reply, line=line, hint=STATE if turn else None, holes=[WORDS])
