"""Span records of MemoryWalker: token ids with a list of (l, r, L, R), both ends counted.

Tokens l to r are invisible to tokens L to R. A call is a run of sampled tokens that see the same
part of what came before; its prompt is that part.

The other form is `(H_comp, H_T, {J, E})`: all tokens in the order of their birth (`H_T`), what is
left of them in the end (`H_comp`), and for each eviction how many tokens there were (`J`) and which
went (`E`, intervals [l, r], both ends counted); `response_mask` or `loss_mask` tells what was
sampled. It is a span record too: from J on nothing sees E. Its spelling as JSON is not documented;
`J` and `E` may stand in the record or in an object in it. `H_comp` has to be `H_T` without all of
`E`, so a record that means something else is refused rather than misread.

The spans are `2d_attention_mask` of jiangxinke/Agentic-RAG-R1, branch verl_dev. That repository's
`src/common/mask.py` (commit 2136c68) and `src/models/mask_utils.py` (commit a359be3) keep triples
(l, r, e) in memory instead: l to r are invisible behind e, which as spans is (l, r, e + 1, the last
token). A record may hold such triples under the same keys, or as `masked_spans`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mwviz.formats.chat import Pool
from mwviz.formats.fields import FieldError, Json, Object, label, members, shown, token_ids
from mwviz.formats.percall import Row, gather
from mwviz.formats.records import Record, Records
from mwviz.formats.token_rows import marks
from mwviz.rollout import Call, Hint, Ints, Rollout

SPANS = ("2d_attention_mask", "mask_spans", "masked_spans")
PAIRS = (("prompt_ids", "response_ids"), ("prompts", "responses"))
MASKS = ("response_mask", "loss_mask")
BOUNDS, TRIPLE = 4, 3
EDGES = 2
LEFT, BORN = "H_comp", "H_T"
CUT, GONE = "J", "E"
MASKED = (
    "its prompt is what the mask shows it, not a prompt that was sent; the pieces were encoded one "
    "by one, so ids at their borders may not be those that were sampled"
)


def detects(head: Sequence[Record]) -> bool:
    """Whether a record holds token ids with spans of a mask."""
    return any(_is_record(record.value) for record in head)


def reads(records: Records) -> list[Rollout]:
    """One rollout a record."""
    return gather(records, _rows)


def _is_record(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    if _evictions(value) is not None:
        return True
    spans = next((value[key] for key in SPANS if key in value), None)
    return isinstance(spans, list) and (
        "input_ids" in value or any(value.keys() >= set(pair) for pair in PAIRS)
    )


def _rows(record: Record, _pool: Pool) -> Iterator[Row]:
    value = record.value
    if not _is_record(value) or not isinstance(value, dict):
        raise FieldError(f"{shown(value)}, expected token ids with spans of their mask")
    name = label(value, "id") or label(value, "index") or f"record on line {record.line}"
    evictions = _evictions(value)
    if evictions is None:
        ids, sampled = _tokens(value)
        hidden = _hidden(value, len(ids))
    else:
        ids, sampled = _tokens({**value, "input_ids": value[BORN]})
        hidden = _evicted(value, evictions, len(ids))
    for call in _calls(ids, sampled, hidden, record.line):
        yield Row(name, call, (MASKED,))


def _tokens(value: Object) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Ids, and which of them were sampled: by the mask, else all of the response."""
    whole = token_ids(value, "input_ids")
    for first, second in PAIRS:
        prompt, response = token_ids(value, first), token_ids(value, second)
        if prompt is not None and response is not None:
            whole = np.concatenate((prompt, response), dtype=np.int32)
            break
    else:
        response = whole
    if whole is None or response is None:
        raise FieldError("no token ids, expected input_ids, or prompt_ids with response_ids")
    given = (marks(value, key) for key in MASKS)
    mask = next((mark for mark in given if mark is not None), None)
    mask = np.ones(len(response), dtype=np.bool_) if mask is None else mask
    if len(mask) > len(whole):
        raise FieldError(f"{len(mask)} marks for {len(whole)} tokens")
    sampled = np.zeros(len(whole), dtype=np.bool_)
    sampled[len(whole) - len(mask) :] = mask
    return whole, sampled


def _evictions(value: Object) -> Object | None:
    """Where `J` and `E` stand, if the record has all tokens and what is left of them."""
    if not (isinstance(value.get(BORN), list) and isinstance(value.get(LEFT), list)):
        return None
    places = (value, *(inner for inner in value.values() if isinstance(inner, dict)))
    return next((place for place in places if CUT in place and GONE in place), None)


def _evicted(value: Object, evictions: Object, size: int) -> list[tuple[int, int, int, int]]:
    """The evictions as spans: from the J-th token's query on, E is hidden."""
    if all(value.get(key) is None for key in MASKS):
        raise FieldError(f"which tokens were sampled is not said, expected {' or '.join(MASKS)}")
    cuts, gone = members(evictions, CUT) or [], members(evictions, GONE) or []
    if len(cuts) != len(gone):
        raise FieldError(f"{CUT} has {len(cuts)} values for {len(gone)} of {GONE}")
    found = []
    for cut, spans in zip(cuts, gone, strict=True):
        for span in spans if isinstance(spans, list) else [spans]:
            edges = [at for at in span if isinstance(at, int)] if isinstance(span, list) else []
            fits = isinstance(cut, int) and len(edges) == EDGES and 0 <= edges[0] <= edges[1] < size
            if not fits or not isinstance(cut, int) or not edges[1] < cut <= size:
                raise FieldError(
                    f"{GONE} holds {shown(span)} at {shown(cut)}, expected [l, r] before it"
                )
            found.append((edges[0], edges[1], cut - 1, size - 1))
    left = np.ones(size, dtype=np.bool_)
    for first, last, _, _ in found:
        left[first : last + 1] = False
    ids, kept = token_ids(value, BORN), token_ids(value, LEFT)
    if ids is None or kept is None or not np.array_equal(ids[left], kept):
        raise FieldError(
            f"{LEFT} is not {BORN} without what {GONE} names: not the meaning read here"
        )
    return found


def _hidden(value: Object, size: int) -> list[tuple[int, int, int, int]]:
    key = next(key for key in SPANS if key in value)
    found = []
    for item in members(value, key) or ():
        given = item if isinstance(item, list) else []
        bounds = [at if isinstance(at, int) else -1 for at in given]
        if len(bounds) == TRIPLE and all(0 <= at < size for at in bounds):
            behind = bounds[2] + 1
            found += [(bounds[0], bounds[1], behind, size - 1)] if behind < size else []
            continue
        if len(bounds) != BOUNDS or not all(0 <= at < size for at in bounds):
            raise FieldError(
                f"{key} holds {shown(item)}, expected (l, r, L, R) or (l, r, e) within {size}"
            )
        found.append((bounds[0], bounds[1], bounds[2], bounds[3]))
    return found


def _calls(
    ids: Ints,
    sampled: npt.NDArray[np.bool_],
    hidden: list[tuple[int, int, int, int]],
    line: int,
) -> Iterator[Call]:
    """Runs of sampled tokens, cut where the query before a token sees something else."""
    edges = {edge for _, _, first, last in hidden for edge in (first + 1, last + 2)}
    places = np.flatnonzero(sampled)
    cuts = [
        at
        for at in range(len(places))
        if at == 0 or places[at] != places[at - 1] + 1 or int(places[at]) in edges
    ]
    before = np.zeros(0, dtype=np.bool_)
    for start, end in zip(cuts, [*cuts, len(places)][1:], strict=True):
        first, last = int(places[start]), int(places[end - 1]) + 1
        seen = np.ones(first, dtype=np.bool_)
        for left, right, begin, until in hidden:
            if begin <= first - 1 <= until:
                seen[left : right + 1] = False
        yield Call(
            "",
            prompt_ids=ids[:first][seen],
            completion_ids=ids[first:last],
            content="rebuilt",
            lineage="main",
            hints=_hints(before, seen),
            line=line,
        )
        before = seen


def _hints(before: npt.NDArray[np.bool_], seen: npt.NDArray[np.bool_]) -> tuple[Hint, ...]:
    """What the mask does to what the call before saw: it hides, or shows again."""
    now = seen[: len(before)]
    if (before & ~now).any():
        return (Hint("drop", "the mask hides tokens from here on"),)
    return (Hint("restore", "the mask shows hidden tokens again"),) if (now & ~before).any() else ()
