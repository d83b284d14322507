"""Seeded worlds of invented people, companies and towns, and questions that take several hops.

The same seed always gives the same task. Names are put together from syllables, so that there are
as many worlds as seeds and no model can know an answer beforehand.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

PEOPLE, COMPANIES, TOWNS = 6, 4, 5
"""How many of each a world has."""
HELD_OUT = 1_000_000
"""First seed of tasks that no training sees."""

_SYLLABLES = {
    "person": (
        "Bri Nor Sel Ha Io Cal Tam Ede Lor Mi Os Per Ras Ul Vin Wen Ya Zel Dra Fen",
        "tta man dric la ne bert sa rin mund lia tor vik nna ko den wyn",
        "Cal Duf Lin Am Hol Bran Gre Mar Oss Pel Rav Sto Thal Vor Wes Yar",
        "der resne quist sel lis tley gory low man ting ner ver combe dahl",
    ),
    "company": (
        "Lark Blue North Stone Silver Oak Iron Amber Fox Raven Copper Elm Gold Moss",
        "spur fen light bridge field works gate stead row well mark thorn",
    ),
    "town": (
        "Esk Med Grel Iver Quar Tol Har Nes Ost Pem Ril Sal Tarn Ul Wex Yel Corn Dun",
        "vale bury ling shore ry wick ford mouth ton ham ley stead combe grave",
    ),
    "river": (
        "Juni Am Sil Tor Vel Mar Os Ken Lod Wil Ar Bel Cor Dar",
        "per ber ver rent lin low sel don dle ra mere",
    ),
}
_CRAFTS = (
    "glass blowing",
    "clock making",
    "rope and sails",
    "blue paper",
    "church bells",
    "fine paint",
)
_FILLER = (
    "Local records describe the weather there as mild, with short winters.",
    "A small museum keeps letters, tools and photographs from that period.",
    "Several guidebooks mention the old stone market and its painted ceiling.",
    "Nearby farms grow rye, apples and a hardy kind of potato.",
    "The yearly fair draws visitors from all over the county.",
    "An old song about it is still taught in schools.",
)
_LEADS_TO = {
    "employer": ("person", "company"),
    "birth town": ("person", "town"),
    "founder": ("company", "person"),
    "head office": ("company", "town"),
    "mayor": ("town", "person"),
    "river": ("town", "river"),
}
MOST_HOPS = 4
"""Longest chain that every world has."""


class Fact(NamedTuple):
    """One thing that a document says."""

    subject: str
    relation: str
    value: str

    @property
    def sentence(self) -> str:
        """The fact as the agent is to note it."""
        return f"the {self.relation} of {self.subject} is {self.value}"


class Document(NamedTuple):
    """What the search tool can find."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, and the facts that lead there."""

    chain: tuple[Fact, ...]

    @property
    def text(self) -> str:
        """The question in words."""
        words = self.chain[0].subject
        for fact in self.chain:
            words = f"the {fact.relation} of {words}"
        return f"Find {words}."

    @property
    def answer(self) -> str:
        """The only right answer."""
        return self.chain[-1].value

    def is_right(self, answer: str) -> bool:
        """Exact match, but for case, space around it and a full stop at its end."""
        return _plain(answer) == _plain(self.answer)


@dataclass(frozen=True, slots=True)
class Task:
    """A world and what is asked about it, one question after the other."""

    seed: int
    questions: tuple[Question, ...]
    documents: tuple[Document, ...]


def make_task(seed: int, *, questions: int = 1, hops: int = 3) -> Task:
    """The task of a seed.

    Args:
        seed: any integer.
        questions: how many are asked, each when the one before is answered.
        hops: facts that lead to an answer, 1 to 4; no relation and no name occurs twice in them.

    Raises:
        ValueError: numbers out of range.
    """
    if questions < 1 or not 1 <= hops <= MOST_HOPS:
        raise ValueError(f"expected at least 1 question of 1 to {MOST_HOPS} hops")
    dice = random.Random(f"search world {seed}")
    asked: list[Question] = []
    while not asked:
        facts = _facts(dice)
        people = [fact.subject for fact in facts if fact.relation == "employer"]
        starts = dice.sample(people, len(people))
        asked = [q for s in starts if (q := _question(dice, facts, s, hops)) is not None]
    again = (asked * questions)[:questions]
    return Task(seed, tuple(again), tuple(_documents(dice, facts)))


def _plain(answer: str) -> str:
    return " ".join(answer.lower().split()).rstrip(".")


def _facts(dice: random.Random) -> tuple[Fact, ...]:
    counts = {"person": PEOPLE, "company": COMPANIES, "town": TOWNS, "river": TOWNS}
    names = {kind: _names(dice, kind, count) for kind, count in counts.items()}
    return tuple(
        Fact(subject, relation, dice.choice([v for v in names[value] if v != subject]))
        for relation, (kind, value) in _LEADS_TO.items()
        for subject in names[kind]
    )


def _names(dice: random.Random, kind: str, count: int) -> list[str]:
    """Different names, no two of which share a word: BM25 finds by words."""
    names: list[str] = []
    used: set[str] = set()
    while len(names) < count:
        parts = [dice.choice(syllables.split()) for syllables in _SYLLABLES[kind]]
        words = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
        if used.isdisjoint(words):
            used.update(words)
            names.append(" ".join(words))
    return names


def _question(
    dice: random.Random, facts: tuple[Fact, ...], start: str, hops: int
) -> Question | None:
    """A chain from a person, found depth-first; None if none of that length starts there."""

    def chains(chain: tuple[Fact, ...]) -> Iterator[tuple[Fact, ...]]:
        if len(chain) == hops:
            yield chain
            return
        here = chain[-1].value if chain else start
        been = {start, *(fact.value for fact in chain)}
        used = {fact.relation for fact in chain}
        steps = [f for f in facts if f.subject == here and f.relation not in used]
        for fact in dice.sample(steps, len(steps)):
            if fact.value not in been:
                yield from chains((*chain, fact))

    found = next(chains(()), None)
    return None if found is None else Question(found)


def _documents(dice: random.Random, facts: tuple[Fact, ...]) -> Iterator[Document]:
    for subject in dict.fromkeys(fact.subject for fact in facts):
        known = {fact.relation: fact.value for fact in facts if fact.subject == subject}
        said = _told(dice, subject, known)
        yield Document(subject, " ".join((*said, dice.choice(_FILLER))))


def _told(dice: random.Random, name: str, known: dict[str, str]) -> tuple[str, ...]:
    year = dice.randint(1100, 1990)
    if "employer" in known:
        return (
            f"{name} was born in the town of {known['birth town']}.",
            f"{name.split()[0]} works for the {known['employer']} company.",
        )
    if "founder" in known:
        return (
            f"The {name} company was founded by {known['founder']} and is known for "
            f"{dice.choice(_CRAFTS)}.",
            f"Its head office is in {known['head office']}.",
        )
    return (
        f"{name} is a town on the {known['river']} River, first named in {year}.",
        f"The mayor of {name} is {known['mayor']}.",
    )
