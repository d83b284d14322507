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
class Laid:
    """A row as units at positions, each seen by the queries from itself up to `until`."""

    units: list[int]
    positions: list[int]
    until: list[int]

    def seen(self, query: int) -> list[int]:
        return [key for key in range(query + 1) if self.until[key] > query]

    def listed(self, query: int, position: int) -> list[tuple[int, int]]:
        """(unit, distance) of all that a query sees."""
        return [(self.units[k], position - self.positions[k]) for k in self.seen(query)]


@dataclass
class Judged:
    """Pair counts of one target in one view."""

    counts: dict[str, int]
    diverging: bool


def judge(truth: Truth, call: int, offset: int, row: Laid, query: int) -> Judged:
    """Every pair of one target, whose query is an index of the row."""
    _, prompt, completion = truth.calls[call]
    true = prompt + completion[:offset]
    born = {unit: index for index, unit in enumerate(truth.birth())}
    lineage = truth.lineage[call]
    earlier = [c for c in range(call + 1) if truth.lineage[c] == lineage]
    met = {unit for c in earlier for unit in truth.context(c)}
    cuts = [depth for later, depth in truth.junction_depths(lineage) if later > call]
    at = row.positions[query] + 1
    distances: dict[int, list[int]] = {}
    for key in row.seen(query):
        distances.setdefault(row.units[key], []).append(at - row.positions[key])
    members: dict[str, list[int]] = {name: [] for name in (*CLASSES, "shifted", "duplicate")}
    for index, unit in enumerate(true):
        if unit in distances:
            members["agree"].append(unit)
            members["duplicate"] += [unit] * (len(distances[unit]) - 1)
            members["shifted"] += [unit] * (len(true) - index not in distances[unit])
        else:
            erased = any(depth <= index for depth in cuts)
            members["erased" if erased else "lost"].append(unit)
    for unit in set(distances) - set(true):
        younger = born[unit] > born[completion[offset]]
        members["future" if younger else "stale" if unit in met else "foreign"].append(unit)
    counts = {name: len(units) for name, units in members.items()}
    known: dict[int, bool] = {}
    agreeing = _agreeing(true, row, query, at)
    counts["tainted"] = sum(tainted(key, true, row, known) for key in agreeing)
    truly = [(unit, len(true) - i) for i, unit in enumerate(true)]
    return Judged(counts, row.listed(query, at) != truly)


CLASSES = ("agree", "future", "erased", "stale", "foreign", "lost")


def _agreeing(true: list[int], row: Laid, query: int, at: int) -> list[int]:
    """The keys that count as agreeing: of several, the one nearest its true distance."""
    best: dict[int, int] = {}
    for key in row.seen(query):
        unit = row.units[key]
        if unit in true:
            wanted = at - (len(true) - true.index(unit))
            known = best.setdefault(unit, key)
            if abs(row.positions[key] - wanted) < abs(row.positions[known] - wanted):
                best[unit] = key
    return list(best.values())


def tainted(key: int, true: list[int], row: Laid, known: dict[int, bool]) -> bool:
    """Whether a key's own ordered list, or that of any key it saw, differs from the truth."""
    if key not in known:
        unit = row.units[key]
        index = true.index(unit) if unit in true else 0
        saw = [k for k in row.seen(key) if k != key]
        own = [(row.units[k], row.positions[key] - row.positions[k]) for k in saw]
        truly = [(true[i], index - i) for i in range(index)]
        differs = unit not in true or own != truly
        known[key] = differs or any(tainted(k, true, row, known) for k in saw)
    return known[key]
