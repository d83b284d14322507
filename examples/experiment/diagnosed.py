"""What SDCC's pull was measured to do by itself: `bench/results/diagnosis.jsonl` in tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from examples.experiment.findings import GRPO
from examples.experiment.results import Run
from mwviz.sdcc import STRENGTH
from mwviz.wording import listed

TEACHERS = {"own": "current weights", "frozen": "first weights"}
DIAGNOSED = Path(__file__).parents[2] / "bench" / "results" / "diagnosis.jsonl"
"""What `examples.experiment.diagnosis` measured."""


class Pulled(NamedTuple):
    """Steps of the pull and nothing else under one harness, with one teacher."""

    harness: str
    teacher: str
    first: Mapping[str, Any]
    """The look before any step."""
    last: Mapping[str, Any]

    @property
    def rewards(self) -> tuple[float, float] | None:
        """Shares of held-out questions answered right, before and after; None if not asked."""
        if "reward" in self.first and "reward" in self.last:
            return self.first["reward"], self.last["reward"]
        return None


def diagnosed() -> list[dict[str, Any]]:
    """Its lines."""
    return [json.loads(text) for text in DIAGNOSED.read_text().splitlines()]


def pulled_alone(lines: Sequence[Mapping[str, Any]]) -> list[Pulled]:
    """Before and after, by harness and teacher."""
    looks = [line for line in lines if line["kind"] == "pull"]
    found = []
    for harness, teacher in dict.fromkeys((one["harness"], one["teacher"]) for one in looks):
        mine = [one for one in looks if (one["harness"], one["teacher"]) == (harness, teacher)]
        found.append(Pulled(harness, teacher, mine[0], mine[-1]))
    return found


def measured(runs: Sequence[Run]) -> Iterator[str]:
    """Two tables, with whose agent it was and on what."""
    lines = diagnosed()
    for agent in dict.fromkeys((whose(line, runs), _machine(line)) for line in lines):
        mine = [line for line in lines if (whose(line, runs), _machine(line)) == agent]
        yield ""
        yield f"Measured on {', on '.join(agent)} (`bench/results/diagnosis.jsonl`)."
        yield from _gradients([line for line in mine if line["kind"] == "gradients"])
        yield from _alone(pulled_alone(mine))
    if not any(line["kind"] == "pull" for line in lines):
        yield ""
        yield (
            "What is not known yet: how much reward this costs, if any. That takes steps of the "
            "pull alone, and questions before and after (`examples/experiment/diagnosis.py`; "
            "[the plan](experiment-plan.md) has the call)."
        )


def starts_from(line: Mapping[str, Any], runs: Sequence[Run]) -> bool:
    """Whether any of the GRPO arms starts from the agent that a line speaks of."""
    starts = {run.start.get("warm") for run in runs if run.part in GRPO}
    return line.get("warm") in starts - {None}


def whose(line: Mapping[str, Any], runs: Sequence[Run]) -> str:
    """The agent that was diagnosed, as far as both sides say which adapter it was."""
    starts = [run for run in runs if run.part in GRPO]
    mine = line.get("warm")
    if mine is None:
        return "an agent after a warm-up whose adapter is not recorded"
    same = sorted({run.seed for run in starts if run.start.get("warm") == mine})
    if same:
        whole = len(same) == len({run.seed for run in starts})
        every = "all seeds" if whole else seeds_listed(same)
        return f"the agent that the GRPO arms of {every} start from (adapter `{mine}`)"
    known = all(isinstance(run.start.get("warm"), str) for run in starts)
    other = ", from which none of these GRPO arms starts" if starts and known else ""
    return f"an agent after a warm-up (adapter `{mine}`){other}"


def unrecorded(runs: Sequence[Run]) -> str | None:
    """Which GRPO arms do not say from which adapter they started; None if all do."""
    starts = [run for run in runs if run.part in GRPO and run.start.get("warm")]
    silent = sorted({one.seed for one in starts if not isinstance(one.start["warm"], str)})
    if not silent:
        return None
    known: dict[str, set[int]] = {}
    for run in starts:
        if isinstance(warm := run.start["warm"], str):
            known.setdefault(warm, set()).add(run.seed)
    told = "".join(
        f"; those of {seeds_listed(tuple(s))} started from `{w}`" for w, s in known.items()
    )
    return (
        f"GRPO arms of {seeds_listed(silent)} do not record from which adapter they started{told}. "
        "Whether all started from the same agent is not known."
    )


def seeds_listed(numbers: Sequence[int]) -> str:
    """In words: `seeds 0 and 1`."""
    told = listed([str(one) for one in sorted(numbers)])
    return f"seed{'s' if len(numbers) > 1 else ''} {told}"


def _machine(line: Mapping[str, Any]) -> str:
    if line.get("device") == "cpu":
        return "a CPU"
    return str(line.get("machine", "a GPU whose name is not recorded"))


def _gradients(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of one batch, at the agent's own weights."""
    if not lines:
        return
    yield ""
    yield (
        f"The pull's gradient at its full strength of {STRENGTH:g}, in one batch that the agent "
        "sampled; *row* is the policy gradient of the row (`rightmost`), *exact* that of the true "
        "contexts, and a cosine of 1 means the same direction:"
    )
    yield ""
    yield (
        "| harness | rollouts, tokens | length, over the row's | cosine with the row's likelihood, "
        "whatever the reward | pull and exact | row and exact | row + pull and exact |"
    )
    yield "|---|---|---|---|---|---|---|"
    for line in lines:
        cells = (
            f"`{line['harness']}`",
            f"{line['rollouts']}, {line['targets']}",
            _length(line),
            _cosine(line, "pull_likelihood", 3),
            *(_cosine(line, name, 2) for name in ("pull_exact", "task_exact", "sdcc_exact")),
        )
        yield f"| {' | '.join(cells)} |"


def _length(line: Mapping[str, Any]) -> str:
    """How long the pull is beside the policy gradient of the row."""
    if not line["norm_task"]:
        return "the row's is 0: all rollouts of a question earned the same"
    return f"x {STRENGTH * line['norm_pull'] / line['norm_task']:.1f}"


def _cosine(line: Mapping[str, Any], name: str, digits: int) -> str:
    """Not defined where one of the two is 0."""
    return "not defined" if line[name] is None else f"{line[name]:.{digits}f}"


def _alone(found: Sequence[Pulled]) -> Iterator[str]:
    """Before and after steps of the pull and nothing else."""
    if not found:
        return
    yield ""
    yield (
        "Steps of the pull and nothing else, on the expert's rollouts. AdamW takes them at full "
        "size, where in `sdcc` the pull is one of two terms: they say where it leads, not how "
        "fast. Cells are before → after. Losses are nats a token in the true contexts; *evidence "
        "has left*: tokens that need what is no longer in their row:"
    )
    yield ""
    yield (
        "| harness | the teacher has the | steps, rate | KL, diverging, nats | loss, all tokens | "
        "loss, evidence has left | right answers | questions |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        asked = one.rewards
        cells = (
            f"`{one.harness}`",
            TEACHERS[one.teacher],
            f"{one.last['step']}, {one.last['rate']:g}",
            *(
                f"{one.first[name]:.3g} → {one.last[name]:.3g}"
                for name in ("kl", "nll_true", "nll_evidence")
            ),
            f"{asked[0]:.0%} → {asked[1]:.0%}" if asked else "not asked",
            f"{one.last['questions']}" if asked else "-",
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield " ".join(
        _borne_out(found, harness) for harness in dict.fromkeys(o.harness for o in found)
    )


def _borne_out(found: Sequence[Pulled], harness: str) -> str:
    """Whether tokens whose evidence has left lose most, as training without evidence should do."""
    mine = [one for one in found if one.harness == harness]
    more = [rise(one, "nll_evidence") > rise(one, "nll_true") for one in mine]
    told = (
        "lose more than the mean of all, as training to say them without evidence would have it"
        if all(more)
        else "lose more than the mean of all with only some of the teachers"
        if any(more)
        else "lose less than the mean of all: training to say them without evidence does not "
        f"explain {_fate(mine[0])}"
    )
    return f"In `{harness}` tokens whose evidence has left {told}."


def _fate(one: Pulled) -> str:
    """What became of its answers."""
    if one.rewards is None:
        return "what the others lose"
    before, after = one.rewards
    return f"why right answers go from {before:.0%} to {after:.0%}"


def rise(one: Pulled, name: str) -> float:
    """By how much a number of its looks grew, in the unit of the number."""
    return float(one.last[name] - one.first[name])
