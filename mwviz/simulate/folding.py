"""Policies in which the agent folds its own past: AgentFold, MEM1, MemAgent, Context-Folding."""

from __future__ import annotations

from dataclasses import dataclass

from mwviz.simulate.context import Context, Edit, Item, interaction, option, without


@dataclass(frozen=True, slots=True)
class AgentFold:
    """The original: one summary a past step, all of them merged now and then.

    The prompt holds how the episode opened, the summaries and the latest interaction.
    """

    first: int = option(2, "step (from 1) at which the agent first folds; the next prompt shows it")
    deep: int = option(8, "summaries that are merged into one once there are as many")
    summary: int = option(60, "most tokens of one step's summary; a merged one has `deep` times it")

    def edit(self, context: Context) -> Edit | None:
        """The context with every step but the latest folded."""
        if context.call < self.first:
            return None
        latest = interaction(context.items, context.call - 1)
        folds = tuple(item for item in context.items if item.of)
        opened = without(context.items, folds + latest)
        opening = tuple(item for item in opened if item.step < 0)
        past = without(opened, opening)
        for step in sorted({item.step for item in past}):
            gone = [item for item in past if item.step == step]
            folds += (context.summary(gone, self.summary, step=step),)
        if len(folds) >= self.deep:
            whole = [item for fold in folds for item in fold.of]
            folds = (context.summary(whole, self.summary * self.deep),)
        return Edit((*opening, *folds, *latest), "fold") if past else None


@dataclass(frozen=True, slots=True)
class Fold:
    """AgentFold in the paper's variant (arXiv 2609.00865), and MEM1 with a limit of 0.

    The prompt holds how the episode opened, one summary and the latest interaction.
    """

    over: int = option(3_000, "tokens of a prompt above which all but the latest step is folded")
    summary: int = option(300, "most tokens of the summary")
    kind: str = "fold"

    def edit(self, context: Context) -> Edit | None:
        """The context with the past in one summary."""
        if context.tokens <= self.over:
            return None
        latest = interaction(context.items, context.call - 1)
        opening = tuple(item for item in context.items if item.step < 0)
        past = without(context.items, opening + latest)
        limit = self.over or None
        if all(item.of for item in past):
            return Edit(context.items, None, limit)
        summary = context.summary(past, self.summary, step=0)
        return Edit((*opening, summary, *latest), self.kind, limit)


@dataclass(frozen=True, slots=True)
class MemAgent:
    """The memory is overwritten at every call: opening, memory, and only what came in since."""

    memory: int = option(1_024, "most tokens of the memory")

    def edit(self, context: Context) -> Edit | None:
        """The context with all but the newest input in the memory."""
        opening = tuple(item for item in context.items if item.step < 0)
        past = without(context.items, opening + context.pending)
        memory = context.summary(past, self.memory, step=0)
        return Edit((*opening, memory, *context.pending), "summary")


@dataclass(frozen=True, slots=True)
class ContextFolding:
    """Every so often the agent works on a branch of which only a message returns.

    Branch and trunk are one lineage here, so that the return shows as the fold it is.
    """

    length: int = option(4, "calls on a branch; between two branches there is one on the trunk")
    summary: int = option(200, "most tokens of the message that returns")

    def edit(self, context: Context) -> Edit | None:
        """The trunk and the returned message, after the last call of a branch."""
        if context.call % (self.length + 1):
            return None
        branch = _since(context.items, context.call - self.length)
        if not branch:
            return None
        message = context.summary(branch, self.summary)
        return Edit((*without(context.items, branch), message), "fold")


def _since(items: tuple[Item, ...], call: int) -> tuple[Item, ...]:
    return tuple(item for item in items if item.step >= call and item.made < 0)
