"""An analysis as the numbers that `mwviz inspect --json` prints; nothing here needs a model."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from mwviz.analysis import Analysis
from mwviz.badge import badge, unknown_caches
from mwviz.errors import ViewError
from mwviz.evidence import doubts
from mwviz.metrics import structure
from mwviz.notes import junction_notes
from mwviz.readers import Reader
from mwviz.semantics import note
from mwviz.trace import Trace
from mwviz.views import METHODS
from mwviz.views.own import OwnView
from mwviz.wording import counted

_METHODS = tuple(method.name for method in METHODS)
FIDELITY = ("exact", "rebuilt", "partial", "unknown")
"""From best to worst: a rollout is as true as its worst call."""


def summarise(trace: Trace, reader: Reader | None = None) -> dict[str, Any]:
    """All rollouts of a trace and its damage; keys are those of the command line's contract.

    Args:
        trace: what was read.
        reader: the model in whose tokens everything is counted; None takes the trace's own.
    """
    rollouts = [summarise_rollout(analysis) for analysis in trace.read_by(reader)]
    return {"rollouts": rollouts, "damage": damage(trace)}


def damage(trace: Trace) -> list[dict[str, Any]]:
    """What was broken or left out of a trace, in file order, as JSON has it."""
    return [
        {"line": d.line, "bytes": d.bytes, "what": d.what, "kept": d.kept} for d in trace.damage
    ]


def summarise_rollout(analysis: Analysis) -> dict[str, Any]:
    """Structure, token budgets and pair counts of one rollout."""
    tree, junctions = analysis.tree, analysis.junction_list
    return {
        "id": analysis.rollout.id,
        "calls": len(analysis.rollout.calls),
        "lineages": len(tree.lineages),
        "junctions": [
            {
                "call": junction.call,
                "kind": junction.kind,
                "depth": junction.depth,
                "evicted": junction.evicted_tokens,
                "inserted": len(junction.inserted),
                "retained": len(junction.retained),
                "evidence": junction.evidence,
                "semantics": junction.semantics,
            }
            for junction in junctions
        ],
        "evictions": sum(junction.is_eviction for junction in junctions),
        "leaves": len(tree.leaves),
        "tokens": tree.budget,
        "views": {name: _view(analysis, name) for name in (*_METHODS, *analysis.batches)},
        "fidelity": fidelity(analysis),
        "semantics": tree.semantics,
        "tokenizer": analysis.encoding.tokenizer,
        "rendering": analysis.encoding.rendering,
        "evidence": asdict(analysis.evidence),
        "warnings": list(warnings(analysis)),
    }


def fidelity(analysis: Analysis) -> str:
    """The worst content fidelity of the calls; `unknown` from an unexplained loss on."""
    worst = max((FIDELITY.index(c.content) for c in analysis.rollout.calls), default=0)
    unexplained = any(junction.depth is None for junction in analysis.junction_list)
    return "unknown" if unexplained else FIDELITY[worst]


def warnings(analysis: Analysis) -> tuple[str, ...]:
    """Every doubt about a rollout, each a sentence: the reader's, the tokens', the tree's."""
    rollout, tree = analysis.rollout, analysis.tree
    own: list[str] = []
    told = note(rollout, tree.semantics)
    if told and analysis.junction_list:
        own.append(unknown_caches(tree) or told)
    if len(tree.lineages) > 1 and any(call.lineage is None for call in rollout.calls):
        own.append(
            f"{len(tree.lineages)} lineages were told apart by their prompts, not by the log: a "
            "changed system prompt starts a new one"
        )
    for junction in analysis.junction_list:
        if junction.depth is None:
            own.append(
                f"call {junction.call}: the provider reports {junction.evicted_tokens:,} prompt "
                "tokens less than before and the log says nothing; from here on contexts are "
                "unknown and junctions are at least those listed"
            )
    if not len(tree.token):
        own.append("nothing was sampled: there is nothing that a view could train or cover")
    unscored = int((tree.query < 0).sum())
    if unscored:
        found = counted(unscored, "sampled token")
        own.append(f"cannot be trained, with no token before: {found}")
    own += doubts(analysis.evidence)
    own += junction_notes(tree, rollout, analysis.junction_list)
    return (*rollout.warnings, *analysis.encoding.warnings, *own)


def _view(analysis: Analysis, name: str) -> dict[str, Any]:
    try:
        view, pairs = analysis.view(name), analysis.pairs(name)
    except ViewError as error:
        return {"refused": str(error)}
    own = analysis.batches.get(name)
    found = {
        **({} if own is None else _batch(own)),
        "targets": int((view.multiplicity > 0).sum()),
        "coverage": None if view.coverage is None else round(view.coverage, 6),
        "uncovered": dict(view.uncovered),
        "multiplicity": structure(analysis.tree, view).multiplicity,
        "diverging": int(pairs.diverging.sum()),
        "pairs": pairs.totals,
        "badge": asdict(badge(analysis, name)),
    }
    analysis.let_go(name)
    return found


def _batch(own: OwnView) -> dict[str, Any]:
    """What could not be placed, and what the batch says of its targets."""
    recorded = {"logprobs": own.logprob, "sampled": own.sampled, "advantages": own.advantage}
    return {
        "tokens": own.tokens,
        "unaligned": own.unaligned,
        "trained_unaligned": own.trained_unaligned,
        "trained_unsampled": own.trained_unsampled,
        "recorded": {name: int((~np.isnan(held)).sum()) for name, held in recorded.items()},
        "alignment": alignment(own),
    }


def alignment(own: OwnView) -> str:
    """What of a trainer's batch could not be placed in the rollout, in a sentence."""
    return (
        f"of {counted(own.tokens, 'token')} {own.unaligned:,} are in no context of the rollout; "
        f"trained though in no context: {own.trained_unaligned:,}, though never sampled: "
        f"{own.trained_unsampled:,}"
    )
