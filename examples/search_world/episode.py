"""One agent at work on a task: what it is asked next, and what its harness does in between.

Tokens in, tokens out: what was sampled enters later prompts as the same ids and is never encoded
again. A summary is a call of its own, and the harness quotes the ids that it sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from examples.search_world.chat import Chat
from examples.search_world.harnesses import Harness
from examples.search_world.search import Search, shown
from examples.search_world.world import Question, Task
from mwviz.rollout import Call, Floats, Hint, Ints, Mark, Message, Part, Rollout, Source, Span
from mwviz.simulate.context import Context, Edit, Item, Policy, without
from mwviz.simulate.writer import Writer

SYSTEM = "You are a search agent. Each turn, note the fact you found; then search again, or answer."
REQUEST = "The context is full. List the facts found so far."
AGAIN = "Write a line that starts with Search: or Answer:."
EXTRA = 2
"""Calls that a question may take beyond one a hop and one to start."""
LIMITS = {"act": 40, "summary": 80}
"""Most tokens of a completion."""

Kind = Literal["act", "summary"]


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What a model is to complete."""

    episode: Episode
    kind: Kind
    messages: tuple[Message, ...]
    prompt_ids: Ints

    @property
    def limit(self) -> int:
        """Most tokens of the completion."""
        return LIMITS[self.kind]


class Sampled(NamedTuple):
    """One completion as it was sampled."""

    ids: Ints
    """With the id that ended it, if it ended."""
    logprobs: Floats | None
    """float32, one a token, nats; None if nothing sampled it."""


@dataclass(slots=True, eq=False)
class _Draft:
    """An edit whose summaries are still to be written."""

    edit: Edit
    left: list[Item]
    written: dict[int, Item] = field(default_factory=dict)


class Episode:
    """One rollout while it is recorded."""

    def __init__(self, task: Task, harness: Harness, chat: Chat, *, name: str) -> None:
        self.task = task
        self.calls_here = 0
        """Calls that acted on the current question."""
        self.newest: Message | None = None
        """The latest answer of the tool to the current question."""
        self._name, self._harness, self._chat = name, harness, chat
        self._policy: Policy = harness.policy
        self._search = Search(task.documents)
        self._writer = _Writer(self)
        self._contents: dict[str, Ints] = {}
        self._items: tuple[Item, ...] = ()
        self._history: tuple[Item, ...] = ()
        self._acts = 0
        self._calls: list[Call] = []
        self._right: list[bool] = []
        self._draft: _Draft | None = None
        self._hints: tuple[Hint, ...] = ()
        self._append(self.message("system", SYSTEM), step=-1)
        self._question = self._ask()
        self.request: Request | None = self._next(edits=False)
        """What is to be completed next; None once all questions are done."""

    @property
    def question(self) -> Question:
        """The one the agent works on."""
        return self.task.questions[min(len(self._right), len(self.task.questions) - 1)]

    def receive(self, sampled: Sampled) -> None:
        """Takes the completion of `request`, and makes the next one."""
        assert self.request is not None
        message = self._record(self.request, sampled)
        edits = self._draft is None
        if self._draft is not None:
            self._write(self._draft, message)
        else:
            self._append(message, step=self._acts, sampled=True)
            self._acts += 1
            self.calls_here += 1
            self._act(message.text)
        self.request = self._next(edits=edits)

    def rollout(self, model: str | None = None) -> Rollout:
        """What was recorded so far; its reward is the share of questions answered right.

        Args:
            model: what sampled it.
        """
        return Rollout(
            id=self._name,
            calls=tuple(replace(call, model=model) for call in self._calls),
            semantics="re_prefill",
            source=Source("mwviz/1"),
            tokenizer=model and model.partition("+")[0],
            reward=sum(self._right) / len(self.task.questions),
            meta={
                "harness": self._harness.name,
                "preset": self._harness.preset,
                "seed": str(self.task.seed),
            },
        )

    def message(self, role: str, text: str, mark: Mark | None = None) -> Message:
        """A message that the harness, the tool or the person wrote."""
        return self._message(role, text, self._chat.encode(text), mark)

    def ids(self, message: Message) -> Ints:
        """The message as it stands in a prompt."""
        assert message.id is not None
        if message.id not in self._contents:
            self._contents[message.id] = self._chat.encode(message.text)
        content = self._contents[message.id]
        return np.concatenate((self._chat.header(message.role), content, self._chat.closing))

    def identified(self, message: Message) -> Message:
        """The message under an id of its own."""
        return self._message(
            message.role, message.text, self._chat.encode(message.text), message.mark
        )

    @property
    def opening(self) -> Ints:
        """What a prompt ends with, for the agent to go on from."""
        return self._chat.header("assistant")

    def _message(self, role: str, text: str, content: Ints, mark: Mark | None) -> Message:
        message = Message(role, (Part("text", text),), id=f"m{len(self._contents)}", mark=mark)
        assert message.id is not None
        self._contents[message.id] = content
        return message

    def _append(self, message: Message, *, step: int, sampled: bool = False) -> Item:
        item = Item(message, len(self.ids(message)), step, sampled)
        self._items += (item,)
        self._history += (item,)
        return item

    def _ask(self) -> Item:
        self.calls_here, self.newest = 0, None
        return self._append(self.message("user", self.question.text), step=self._acts - 1)

    def _act(self, text: str) -> None:
        """What the world answers to a turn of the agent."""
        line = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        verb, colon, rest = line.partition(":")
        if colon and verb.strip() == "Answer":
            self._close(right=self.question.is_right(rest))
        elif self.calls_here > len(self.question.chain) + EXTRA:
            self._close(right=False)
        else:
            searched = colon and verb.strip() == "Search"
            said = shown(self._search.find(rest)) if searched else AGAIN
            self.newest = self.message("tool", said)
            self._append(self.newest, step=self._acts - 1)

    def _close(self, *, right: bool) -> None:
        self._right.append(right)
        if len(self._right) < len(self.task.questions):
            self._question = self._ask()

    def _next(self, *, edits: bool) -> Request | None:
        """What to complete next; the policy acts once before each of the agent's turns."""
        if len(self._right) == len(self.task.questions):
            return None
        if edits:
            self._edit()
        if self._draft is not None:
            return self._request("summary", self._asked(self._draft.edit))
        return self._request("act", tuple(item.message for item in self._items))

    def _edit(self) -> None:
        """Lets the policy act; leaves a draft if the agent has to write a summary first."""
        context = Context(
            self._items,
            self._history,
            self._acts,
            len(self._calls) + 1,
            len(self.opening),
            self._writer,
        )
        edit = self._policy.edit(context)
        if edit is None:
            return
        made = [i for i in edit.items if i.made == self._acts and i.message.mark == "summary"]
        if made:
            self._draft = _Draft(edit, made)
        else:
            self._apply(edit, {})

    def _asked(self, edit: Edit) -> tuple[Message, ...]:
        """The prompt of a summary: what stays behind it and was never sent is not in it."""
        unseen = [i for i in self._items if i.step == self._acts - 1 and not i.sampled]
        seen = without(self._items, (item for item in unseen if item in edit.items))
        return (*(item.message for item in seen), self.message("user", REQUEST, "reminder"))

    def _write(self, draft: _Draft, said: Message) -> None:
        """Puts the sampled ids in the summary's place; the question goes in front if it left."""
        assert said.id is not None
        item = draft.left.pop(0)
        left = self._question not in draft.edit.items
        quoted = f"{self.question.text}\n" if left else ""
        content = np.concatenate((self._chat.encode(quoted), self._contents[said.id]))
        role = item.message.role
        message = self._message(role, quoted + said.text, content, "summary")
        draft.written[id(item)] = item._replace(message=message, tokens=len(self.ids(message)))
        if not draft.left:
            self._draft = None
            self._apply(draft.edit, draft.written)

    def _apply(self, edit: Edit, written: dict[int, Item]) -> None:
        items = tuple(written.get(id(item), item) for item in edit.items)
        if [id(item) for item in items] != [id(item) for item in self._items]:
            self._hints = (Hint(edit.kind, self._harness.preset),) if edit.kind else ()
        self._items = items

    def _request(self, kind: Kind, messages: tuple[Message, ...]) -> Request:
        ids = [*(self.ids(message) for message in messages), self.opening]
        return Request(self, kind, messages, np.concatenate(ids, dtype=np.int32))

    def _record(self, request: Request, sampled: Sampled) -> Message:
        ended = len(sampled.ids) > 0 and int(sampled.ids[-1]) == self._chat.stop
        content = sampled.ids[:-1] if ended else sampled.ids
        message = self._message("assistant", self._chat.decode(content), content, None)
        author = self._draft.edit.author if self._draft else None
        self._calls.append(
            Call(
                id=f"c{len(self._calls)}",
                lineage=author or "main",
                prompt=request.messages,
                completion=(message,),
                prompt_ids=request.prompt_ids,
                completion_ids=sampled.ids,
                logprobs=sampled.logprobs,
                spans=self._spans(request, message, len(sampled.ids)),
                temperature=None if sampled.logprobs is None else 1.0,
                finish="stop" if ended else "length",
                hints=() if request.kind == "summary" else self._hints,
            )
        )
        if request.kind == "act":
            self._hints = ()
        return message

    def _spans(self, request: Request, said: Message, length: int) -> tuple[Span, ...]:
        spans, end = [], 0
        for message in request.messages:
            start, end = end, end + len(self.ids(message))
            spans.append(Span(start, end, message.id or "", message.role, _kind(message)))
        total = len(request.prompt_ids) + length
        return (*spans, Span(end, total, said.id or "", said.role, request.kind))


class _Writer(Writer):
    """Sizes of the live messages; a summary is left blank until the agent has written it."""

    def __init__(self, episode: Episode) -> None:
        super().__init__()
        self._episode = episode

    def tokens(self, message: Message) -> int:
        return len(self._episode.ids(message))

    def learn(self, messages: Sequence[Message]) -> None:
        """Nothing to count beforehand."""

    def opening(self, completion: tuple[Message, ...] | None) -> int:  # noqa: ARG002
        return len(self._episode.opening)

    def stub(self, message: Message, text: str) -> Message:
        return self._episode.identified(super().stub(message, text))

    def note(self, text: str) -> Message:
        return self._episode.identified(super().note(text))

    def summary(self, gone: Sequence[Message], longest: int, *, role: str) -> Message:  # noqa: ARG002
        return self._episode.message(role, "", "summary")


def _kind(message: Message) -> str:
    """What a message is, as the span of a call names it."""
    if message.mark:
        return message.mark
    return {"system": "system", "tool": "tool_output", "assistant": "act"}.get(
        message.role, "question"
    )


def play(episodes: Sequence[Episode], sampler: Sampler) -> None:
    """Runs all episodes to their ends, one call of each at a time."""
    while waiting := [e.request for e in episodes if e.request is not None]:
        for request, sampled in zip(waiting, sampler.sample(waiting), strict=True):
            request.episode.receive(sampled)


class Sampler:
    """What completes requests."""

    def sample(self, requests: Sequence[Request]) -> list[Sampled]:
        """One completion a request, in order."""
        raise NotImplementedError
