"""Truncation without a summary, worked out anew from the whole history at every call."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mwviz.simulate.context import Context, Edit, Item, option, size, swapped, without

OMITTED = "omit"


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """The system messages and the newest messages."""

    messages: int = option(10, "newest messages that stay")

    def edit(self, context: Context) -> Edit | None:
        """The newest messages behind the system messages."""
        rest = without(context.history, context.head)
        if len(rest) <= self.messages:
            return None
        return Edit((*context.head, *rest[len(rest) - self.messages :]), "drop")


@dataclass(frozen=True, slots=True)
class QwenAgent:
    """Qwen-Agent: whole old turns go, then tool results shrink, then steps go.

    Nothing is remembered from call to call, so that text can come back: once a whole turn fits the
    overshoot it goes at once, and what had been shortened behind it may be whole again.
    """

    window: int = option(58_000, "most tokens of a prompt")
    cut: int = option(0, "tokens left of a shortened result, half from each end; 0: one word")

    def edit(self, context: Context) -> Edit | None:
        """The history, shortened from its oldest end until it fits the window."""
        over = size(context.history) + context.opening - self.window
        if over <= 0:
            return Edit(context.history, _kind(context.items, context.history))
        kept, over = _without_turns(context, over)
        short = self._shortened(context, kept, over)
        items = swapped(kept, short)
        left = over - (size(kept) - size(items))
        items = _without_steps(context, items, left)
        return Edit(items, _kind(context.items, items), self.window)

    def _shortened(self, context: Context, items: tuple[Item, ...], over: int) -> dict[int, Item]:
        """Oldest tool results, shortened until the overshoot is gone."""
        short: dict[int, Item] = {}
        for item in items:
            if over <= 0:
                break
            if not item.is_result:
                continue
            new = self._short(context, item)
            if new.tokens < item.tokens:
                short[id(item)] = new
                over -= item.tokens - new.tokens
        return short

    def _short(self, context: Context, item: Item) -> Item:
        if not self.cut:
            return context.stub(item, OMITTED)
        message = context.writer.cut(item.message, self.cut)
        return context.item(message, (item,), item.step)


def _kind(before: tuple[Item, ...], after: tuple[Item, ...]) -> str | None:
    """What one truncation changed of the one before; None if nothing but what is new."""
    whole = {id(item) for item in before if not item.of}
    short = {id(old) for item in before for old in item.of}
    now_short = {id(old) for item in after for old in item.of}
    now_whole = {id(item) for item in after if not item.of}
    if now_whole - whole:
        return "restore"
    if (whole | short) - (now_whole | now_short):
        return "drop"
    return "placeholder" if now_short - short else None


def _without_turns(context: Context, over: int) -> tuple[tuple[Item, ...], int]:
    """The history without its oldest turns, as long as a whole one fits the overshoot."""
    items = context.history
    starts = [at for at, item in enumerate(items) if item.is_user]
    kept = items
    for start, end in pairwise(starts):
        turn = items[start:end]
        if size(turn) > over:
            break
        kept = without(kept, turn)
        over -= size(turn)
    return kept, over


def _without_steps(context: Context, items: tuple[Item, ...], over: int) -> tuple[Item, ...]:
    """Without the oldest steps, but for the latest one, until the overshoot is gone."""
    for call in range(context.call - 1):
        if over <= 0:
            break
        step = tuple(i for i in items if i.step == call and not i.is_user)
        items = without(items, step)
        over -= size(step)
    return items
