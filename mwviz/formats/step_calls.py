"""Calls of the step records of research harnesses, in which a memory takes the place of the past.

Such a record names what each step said and found; a rule of the harness says what the next prompt
was made of. The rules stand in the modules of the formats; what all of them need is here.
"""

from __future__ import annotations

from collections.abc import Sequence

from mwviz.formats.fields import Json
from mwviz.rollout import Call, ContentFidelity, Hint, Hole, Mark, Message, Part

MAIN = "main"
WORDS = "the harness's own words around question, memory and text are not in the file"
SYSTEM = "system prompt and tool list are not in the file"


def said(role: str, *texts: str, line: int, mark: Mark | None = None) -> Message:
    """A message of these texts, the empty ones left out."""
    parts = tuple(Part("text", text) for text in texts if text)
    return Message(role, parts, mark=mark, line=line)


def step(
    prompt: Sequence[Message],
    reply: str | None,
    *,
    line: int,
    hint: Hint | None = None,
    holes: Sequence[str] = (),
    content: ContentFidelity = "rebuilt",
) -> Call:
    """The call of one step.

    Args:
        prompt: what the harness's rule makes of the record.
        reply: what the model said; None if the record does not hold it.
        line: of the file.
        hint: what the rule did to the context before the call.
        holes: what the prompt lacks.
        content: how true the prompt is.
    """
    return Call(
        "",
        prompt=tuple(prompt),
        completion=None if reply is None else (said("assistant", reply, line=line),),
        lineage=MAIN,
        content=content,
        tokens="rendered",
        holes=tuple(Hole(why) for why in holes),
        hints=() if hint is None else (hint,),
        line=line,
    )


def text_of(value: Json) -> str:
    """A text field's value; "" for anything else."""
    return value if isinstance(value, str) else ""
