"""What of its rollouts a run learns from and measures by, in short, so that a resume knows them.

The digest of an analysis stands for tokens and calls alone. No torch here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mwviz.analysis import Analysis
from mwviz.training.advantage import recorded_logprobs, recorded_reward
from mwviz.training.plan import Plan
from mwviz.training.recipe import OWN
from mwviz.wording import listed

PARTS = {
    "tokens": "tokens or calls",
    "layout": "messages that tokens belong to, or how its cache was treated",
    "logprobs": "recorded log-probabilities",
    "reward": "reward",
}
"""What a rollout gives, by its name in `config.json`, in words."""
TOLD = 3
"""Changes that are named; of more, how many."""


def signals(plan: Plan, trained: Sequence[Analysis], watched: Sequence[Analysis]) -> dict[str, Any]:
    """All that the run learns from or measures by, as JSON: numbers, and digests of arrays.

    Args:
        plan: of the run.
        trained: the rollouts that it trains on, in the model's tokens.
        watched: those that it watches.
    """
    batches = [name.removeprefix(OWN) for name in plan.methods if name.startswith(OWN)]
    rewarded = plan.recipe.objective == "policy"
    return {
        "trained": [_parts(one, rewarded=rewarded) for one in trained],
        "watched": [_parts(one, rewarded=False) for one in watched],
        # One that is not there fails its arm, which says so.
        "batches": {
            path: _digest(Path(path).read_bytes()) for path in batches if Path(path).is_file()
        },
    }


def changes(before: Mapping[str, Any], now: Mapping[str, Any], begun: Container[str]) -> str:
    """What differs between two `signals` of one plan, in words; "" if nothing does.

    Args:
        before: as the run began.
        now: as it goes on.
        begun: arms that have taken a step; a batch that none of them has read may be mended.
    """
    found = [
        *_changed(before["trained"], now["trained"], "trained"),
        *_changed(before["watched"], now["watched"], "watched"),
    ]
    for path in dict.fromkeys((*before["batches"], *now["batches"])):
        if f"{OWN}{path}" in begun and before["batches"].get(path) != now["batches"].get(path):
            found.append(f"the batch {path}")
    # A rollout that is trained on may be watched as well.
    return listed([*dict.fromkeys(found)], most=TOLD)


def _parts(analysis: Analysis, *, rewarded: bool) -> dict[str, Any]:
    tree = analysis.tree
    shape = (tree.origin, tree.lineage, tree.cache, tree.start, tree.exit)
    found: dict[str, Any] = {
        "rollout": analysis.rollout.id,
        "tokens": analysis.digest,
        "layout": _digest(tree.semantics.encode(), *(array.tobytes() for array in shape)),
        "logprobs": _digest(recorded_logprobs(analysis).astype("<f4").tobytes()),
    }
    return found | ({"reward": recorded_reward(analysis.rollout)} if rewarded else {})


def _changed(
    before: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]], which: str
) -> Iterator[str]:
    if len(before) != len(now):
        yield f"the number of {which} rollouts ({len(before)} before, {len(now)} now)"
        return
    for place, (then, one) in enumerate(zip(before, now, strict=True), 1):
        name = f"rollout {one['rollout']!r} ({place} of {len(now)})"
        if then["rollout"] != one["rollout"]:
            yield f"{name}, where {then['rollout']!r} was"
            continue
        told = [words for name, words in PARTS.items() if then.get(name) != one.get(name)]
        if "reward" in one and then.get("reward") != one["reward"]:
            told[-1] += f" ({then.get('reward'):g} before, {one['reward']:g} now)"
        if told:
            yield f"{name}: its {listed(told)}"


def _digest(*contents: bytes) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for content in contents:
        digest.update(content)
    return digest.hexdigest()
