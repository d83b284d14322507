"""A recorded rollout replayed under a policy: the same completions, other contexts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mwviz.rollout import Call, Hint, Message
from mwviz.simulate.clearing import Append
from mwviz.simulate.context import Context, Edit, Item, Policy, without
from mwviz.simulate.transcript import Step, Transcript
from mwviz.simulate.writer import Writer
from mwviz.wording import counted


class Replayed(NamedTuple):
    """The calls of a simulated rollout, and what there is to say about them."""

    calls: tuple[Call, ...]
    off_policy: tuple[str, ...]
    """Ids of the calls whose completion was sampled in another context than they show."""
    warnings: tuple[str, ...]
    tokenizer: str | None = None
    """Of the ids in the calls; None if they hold messages."""


def replay(transcript: Transcript, policy: Policy, writer: Writer, *, name: str) -> Replayed:
    """All calls with the prompts that a policy leaves of the transcript."""
    run = _Run(policy, len(transcript.steps), writer, name)
    calls: list[Call] = []
    for entry in transcript.order:
        calls += run.step(entry) if isinstance(entry, Step) else [recorded(entry)]
    return Replayed(tuple(calls), tuple(run.off_policy), transcript.warnings + run.warnings(calls))


@dataclass(slots=True, eq=False)
class _Run:
    """The main agent's context while the transcript is replayed."""

    policy: Policy
    calls: int
    writer: Writer
    name: str
    items: tuple[Item, ...] = ()
    history: tuple[Item, ...] = ()
    call: int = 0
    edits: int = 0
    largest: int = 0
    """Tokens of the largest prompt."""
    over: list[str] = field(default_factory=list)
    """Calls whose prompt stays above the policy's limit."""
    off_policy: list[str] = field(default_factory=list)

    def step(self, step: Step) -> Iterator[Call]:
        """One call of the main agent, behind the calls that the harness makes before it."""
        self._append(step.added, self.call - 1, sampled=False)
        completion = step.call.completion or ()
        context = Context(
            self.items,
            self.history,
            self.call,
            self.calls,
            self.writer.opening(completion),
            self.writer,
        )
        edit = self.policy.edit(context) if self.call else None
        hints: tuple[Hint, ...] = ()
        if edit is not None:
            if edit.request is not None:
                yield self._author(step.call, edit, context.pending)
            self.edits += [id(i) for i in edit.items] != [id(i) for i in self.items]
            self.items = edit.items
            hints = (Hint(edit.kind, f"simulated: {self.name}"),) if edit.kind else ()
        yield self._sent(step.call, hints, context.opening, edit)
        self._append(completion, self.call, sampled=True)
        self.call += 1

    def warnings(self, calls: list[Call]) -> tuple[str, ...]:
        """What a user has to know about the result."""
        found = []
        if self.off_policy:
            found.append(
                f"simulated: the completions of {len(self.off_policy)} of {len(calls)} calls are "
                "off-policy, recorded in another context than the one shown"
            )
        if not self.edits and not isinstance(self.policy, Append):
            found.append(
                f"simulated: {self.name} changed nothing; the largest prompt has "
                f"{counted(self.largest, 'token')}"
            )
        if self.over:
            found.append(
                f"simulated: {len(self.over)} prompts stay above the limit, because what has to "
                f"stay is larger (first: call {self.over[0]!r})"
            )
        return tuple(found)

    def _append(self, messages: Sequence[Message], step: int, *, sampled: bool) -> None:
        self.writer.learn(messages)
        new = tuple(Item(m, self.writer.tokens(m), step, sampled) for m in messages)
        self.items += new
        self.history += new

    def _sent(self, call: Call, hints: tuple[Hint, ...], opening: int, edit: Edit | None) -> Call:
        """The recorded call with the prompt that it gets here."""
        prompt = tuple(item.message for item in self.items)
        tokens = sum(item.tokens for item in self.items) + opening
        self.largest = max(self.largest, tokens)
        if edit is not None and edit.limit is not None and tokens > edit.limit:
            self.over.append(call.id)
        changed = [m.content_key for m in prompt] != [m.content_key for m in call.prompt or ()]
        if changed:
            self.off_policy.append(call.id)
        content = "rebuilt" if changed and call.content == "exact" else call.content
        known = {message.id for message in prompt}
        holes = tuple(hole for hole in call.holes if hole.after is None or hole.after in known)
        return replace(recorded(call), prompt=prompt, hints=hints, content=content, holes=holes)

    def _author(self, call: Call, edit: Edit, pending: tuple[Item, ...]) -> Call:
        """The call that writes the summary: simulated, so its completion is off-policy too.

        It is not shown what stays behind the summary and was not sent before.
        """
        assert edit.request is not None
        summary = next(item for item in edit.items if item.made == self.call)
        written = replace(summary.message, role="assistant", mark=None)
        unseen = tuple(item for item in pending if item in edit.items)
        asked = (*without(self.items, unseen), edit.request)
        made = Call(
            id=f"{call.id}-summary",
            prompt=tuple(item.message for item in asked),
            completion=(written,),
            lineage=edit.author or call.lineage,
            content="rebuilt",
            tokens="rendered",
        )
        self.off_policy.append(made.id)
        return made


def recorded(call: Call) -> Call:
    """A call without what belongs to the recorded prompt alone."""
    return replace(call, usage=None, hints=(), semantics=None, line=None)
