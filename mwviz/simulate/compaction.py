"""Full compaction: near the limit the history is replaced by a summary, perhaps with a tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mwviz.simulate.context import Context, Edit, Item, newest, option, size, without

REQUEST = "The context is nearly full. Summarise the work so far, so that it can go on from there."


@dataclass(frozen=True, slots=True)
class Compaction:
    """Claude Code, OpenCode and ReSum: system messages, perhaps the task, summary, tail.

    An unanswered message of a person stays behind the summary; unanswered tool results do not.
    """

    window: int = option(200_000, "tokens of the context window")
    at: float = option(0.8, "share of the window above which it compacts")
    summary: int = option(2_000, "most tokens of the summary")
    tail: int = option(0, "most tokens kept word for word behind the summary, in whole messages")
    author: bool = option(False, "also log the call that writes the summary")
    tail_share: float = 1.0
    """Share of the window that the tail may have at most."""
    keeps_task: bool = False
    role: Literal["user", "assistant"] = "user"
    """Role of the summary."""
    writer: str | None = None
    """Lineage of the call that writes the summary; None for the agent itself."""

    def edit(self, context: Context) -> Edit | None:
        """The history as summary and tail, once it outgrows its share of the window."""
        limit = int(self.window * self.at)
        if context.tokens <= limit:
            return None
        first = context.head + (context.task if self.keeps_task else ())
        rest = without(context.items, first)
        tail = newest(rest, min(self.tail, int(self.window * self.tail_share)))
        asked = tuple(i for i in without(context.pending, (*first, *tail)) if i.is_user)
        tail = asked + tail
        gone = without(rest, tail)
        if all(item.of for item in gone):
            return Edit(context.items, None, limit)
        summary = context.summary(gone, self.summary, role=self.role)
        request = _request(context) if self.author else None
        kind = "summary_tail" if without(tail, context.pending) else "summary"
        return Edit((*first, summary, *tail), kind, limit, request, self.writer)


@dataclass(frozen=True, slots=True)
class Codex:
    """System messages, the messages of the person word for word, then the summary."""

    window: int = option(272_000, "tokens of the context window")
    at: float = option(0.9, "share of the window above which it compacts")
    summary: int = option(2_000, "most tokens of the summary")
    users: int = option(20_000, "most tokens of the person's messages, newest first")
    author: bool = option(False, "also log the call that writes the summary")

    def edit(self, context: Context) -> Edit | None:
        """The history as the person's messages and a summary, once it is too long."""
        limit = int(self.window * self.at)
        if context.tokens <= limit:
            return None
        users = _newest_users(context, self.users)
        first = (*context.head, *users)
        gone = without(context.items, first)
        if all(item.of for item in gone):
            return Edit(context.items, None, limit)
        summary = context.summary(gone, self.summary)
        request = _request(context) if self.author else None
        return Edit((*first, summary), "summary", limit, request)


def _newest_users(context: Context, longest: int) -> tuple[Item, ...]:
    users = [item for item in context.history if item.is_user]
    while users and size(users) > longest:
        del users[0]
    return tuple(users)


def _request(context: Context) -> Item:
    return context.item(context.writer.note(REQUEST))
