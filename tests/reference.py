"""The plain reference: the definitions of the theory, section 4, as loops over tokens.

Shares no code with the library beyond the log itself: origins are the ids of a unit log.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

Calls = list[tuple[str | None, list[int], list[int]]]


@dataclass
class Truth:
    """What a unit log says about one rollout, worked out token by token."""

    calls: Calls
    lineage: list[int]

    def context(self, call: int) -> list[int]:
        return self.calls[call][1] + self.calls[call][2]

    def birth(self) -> list[int]:
        """Distinct ids in order of appearance."""
        seen: list[int] = []
        for call in range(len(self.calls)):
            seen += [unit for unit in self.context(call) if unit not in seen]
        return seen

    def junction_depths(self, lineage: int) -> list[tuple[int, int]]:
        """(call, branch depth) of every junction of a lineage."""
        found = []
        own = [call for call in range(len(self.calls)) if self.lineage[call] == lineage]
        for before, call in pairwise(own):
            previous, prompt = self.context(before), self.calls[call][1]
            depth = 0
            while depth < min(len(previous), len(prompt)) and previous[depth] == prompt[depth]:
                depth += 1
            if depth < len(previous):
                found.append((call, depth))
        return found


@dataclass
class Judged:
    """Pair counts of one target in one view."""

    counts: dict[str, int]
    diverging: bool
    members: dict[str, set[int]]


def judge(truth: Truth, call: int, offset: int, row: list[int], query: int) -> Judged:
    """Every pair of one target against a causal row of ids, positions 0, 1, ..."""
    _, prompt, completion = truth.calls[call]
    true = prompt + completion[:offset]
    shown = row[: query + 1]
    born = {unit: index for index, unit in enumerate(truth.birth())}
    target = completion[offset]
    lineage = truth.lineage[call]
    met = {
        unit for c in range(call + 1) if truth.lineage[c] == lineage for unit in truth.context(c)
    }
    cuts = [depth for later, depth in truth.junction_depths(lineage) if later > call]
    classes = ("agree", "future", "erased", "stale", "foreign", "lost")
    members: dict[str, set[int]] = {name: set() for name in (*classes, "shifted", "tainted")}
    for unit in true:
        index = true.index(unit)
        if unit in shown:
            members["agree"].add(unit)
            if (query + 1 - shown.index(unit)) != (len(true) - index):
                members["shifted"].add(unit)
            if shown[: shown.index(unit)] != true[:index]:
                members["tainted"].add(unit)
        elif any(depth <= index for depth in cuts):
            members["erased"].add(unit)
        else:
            members["lost"].add(unit)
    for unit in set(shown) - set(true):
        younger = born[unit] > born[target]
        members["future" if younger else "stale" if unit in met else "foreign"].add(unit)
    counts = {name: len(units) for name, units in members.items()}
    listed = [(unit, query + 1 - i) for i, unit in enumerate(shown)]
    truly = [(unit, len(true) - i) for i, unit in enumerate(true)]
    return Judged(counts, listed != truly, members)
