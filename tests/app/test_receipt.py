"""What the Open page says was read."""

from __future__ import annotations

from pathlib import Path

from mwviz import load
from mwviz.summary import warnings
from mwviz_app import receipt

CASES = Path(__file__).parents[1] / "data" / "cases"


def test_the_counted_warnings_are_those_that_stand_as_the_readers() -> None:
    counted = 0
    for path in sorted(CASES.glob("*/session.jsonl"))[:12]:
        trace = load(path)
        column = receipt.rollouts(trace)["reader's warnings"]
        for index, found in enumerate(column):
            told = receipt.warned(trace, index)
            assert len(told["of the reader"]) == len(set(trace.rollouts[index].warnings)) <= found
            every = [text for texts in told.values() for text in texts]
            assert sorted(every) == sorted({*trace.warnings, *warnings(trace.analyses[index])})
            counted += len(every)
    assert counted
