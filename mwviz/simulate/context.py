"""What a harness would send next, as sized messages, and what a policy may do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, TypeVar

from mwviz.rollout import Message
from mwviz.simulate.writer import Writer

HEADER_ROLES = frozenset({"system", "developer"})
Value = TypeVar("Value", int, float, bool, str, tuple[int, ...])


def option(default: Value, about: str, *, choices: tuple[str, ...] = ()) -> Any:
    """A field of a policy that a user may set, with what it means."""
    return field(default=default, metadata={"about": about, "choices": choices})


class Item(NamedTuple):
    """One message of a context."""

    message: Message
    tokens: int
    step: int
    """Call (from 0) that sampled it or that it answers; -1 before the first call."""
    sampled: bool = False
    of: tuple[Item, ...] = ()
    """What it stands for, if the simulator wrote it."""
    made: int = -1
    """Call before which the simulator put it there; -1 for what was recorded."""

    @property
    def is_header(self) -> bool:
        """Whether it is a system or developer message."""
        return self.message.role in HEADER_ROLES

    @property
    def is_result(self) -> bool:
        """Whether it holds what a tool returned."""
        message = self.message
        return message.role == "tool" or any(p.kind == "tool_result" for p in message.parts)

    @property
    def is_user(self) -> bool:
        """Whether a person, not a tool or the harness, wrote it."""
        return self.message.role == "user" and not self.is_result and self.message.mark is None


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """The moment before one call."""

    items: tuple[Item, ...]
    """What the harness would send if it changed nothing."""
    history: tuple[Item, ...]
    """Everything ever appended."""
    call: int
    """Number of the call, from 0."""
    calls: int
    """Calls of the whole rollout."""
    opening: int
    """Tokens that open the completion; they belong to the prompt."""
    writer: Writer

    @property
    def tokens(self) -> int:
        """Size of the prompt."""
        return size(self.items) + self.opening

    @property
    def head(self) -> tuple[Item, ...]:
        """The system messages that open the history."""
        return leading(self.history, lambda item: item.is_header)

    @property
    def task(self) -> tuple[Item, ...]:
        """The first message of a person."""
        return next(((item,) for item in self.history if item.is_user), ())

    @property
    def pending(self) -> tuple[Item, ...]:
        """Messages that no call has been sent yet."""
        return tuple(item for item in interaction(self.items, self.call - 1) if not item.sampled)

    def summary(
        self, gone: Sequence[Item], longest: int, *, role: str = "user", step: int | None = None
    ) -> Item:
        """A message of at most `longest` tokens that stands for those that left."""
        message = self.writer.summary([item.message for item in gone], longest, role=role)
        return self.item(message, tuple(gone), step)

    def stub(self, item: Item, text: str) -> Item:
        """A tool result with its text replaced, in the same place."""
        return self.item(self.writer.stub(item.message, text), (item,), item.step)

    def item(self, message: Message, of: tuple[Item, ...] = (), step: int | None = None) -> Item:
        """A message that the simulator wrote."""
        place = self.call - 1 if step is None else step
        return Item(message, self.writer.tokens(message), place, of=of, made=self.call)


class Edit(NamedTuple):
    """What a policy made of a context."""

    items: tuple[Item, ...]
    kind: str | None = None
    """Junction kind that the harness would report; None if it reports none."""
    limit: int | None = None
    """Tokens the prompt should not exceed, where the policy has such a limit."""
    request: Item | None = None
    """If the summary's own call is to be logged: the message that asks for it."""
    author: str | None = None
    """Lineage of that call; None for the agent itself."""


class Policy(Protocol):
    """A harness's rule. Its dataclass fields made by `option` are what a user may set."""

    def edit(self, context: Context) -> Edit | None:
        """The context as the harness would send it; None to send it as it is."""


def size(items: Iterable[Item]) -> int:
    """Tokens of the messages."""
    return sum(item.tokens for item in items)


def leading(items: Sequence[Item], holds: Callable[[Item], bool]) -> tuple[Item, ...]:
    """The longest start of the items that holds throughout."""
    end = next((at for at, item in enumerate(items) if not holds(item)), len(items))
    return tuple(items[:end])


def newest(items: Sequence[Item], tokens: int) -> tuple[Item, ...]:
    """The newest whole messages within so many tokens, not starting with a tool's answer."""
    start, left = len(items), tokens
    while start and items[start - 1].tokens <= left:
        start -= 1
        left -= items[start].tokens
    while start < len(items) and items[start].is_result:
        start += 1
    return tuple(items[start:])


def without(items: Iterable[Item], gone: Iterable[Item]) -> tuple[Item, ...]:
    """The items but for those given; an item is itself only, whatever its text."""
    drop = {id(item) for item in gone}
    return tuple(item for item in items if id(item) not in drop)


def swapped(items: Iterable[Item], new: dict[int, Item]) -> tuple[Item, ...]:
    """The items, each replaced by what `new` holds for its `id()`."""
    return tuple(new.get(id(item), item) for item in items)


def interaction(items: Iterable[Item], call: int) -> tuple[Item, ...]:
    """The recorded items that a call sampled, and the answers to them."""
    return tuple(item for item in items if item.step == call and item.made < 0)


def stripped(item: Item, writer: Writer) -> Item | None:
    """The item without its reasoning; None if nothing else is in it."""
    parts = tuple(part for part in item.message.parts if part.kind != "reasoning")
    if len(parts) == len(item.message.parts):
        return item
    message = replace(item.message, parts=parts, id=None)
    return item._replace(message=message, tokens=writer.tokens(message)) if parts else None
