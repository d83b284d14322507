"""Runs tests one after another with a limit for each and for all, and keeps what each came to.

    python -m bench.timed_tests OUT SECONDS FILE ...

Tests named in `LAST` come last, in its order: what compiles most is what may be cut off. All share
one process, so that what one has compiled serves the next. A test that exceeds its limit fails and
the others go on; one for which no time is left is `not run`. OUT is written after every test.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

EACH = 100
"""Seconds of one test."""
LAST = (
    *("bfloat16", "run_twice", "cut_to_fit", "train_the_same", "in_batches_say", "halved"),
    *("trains_as_its_branches_do[flex", "another_card", "trains_as_its_branches_do[split"),
    *("trains_as_its_branches_do[varlen", "through_compiled_layers"),
)
"""Parts of names, what compiles least first."""


class Late(Exception):  # noqa: N818  # no error of the engine's
    """A test has used up its time."""


class Timed:
    """A pytest plugin: order, limits and results."""

    def __init__(self, out: Path, seconds: float) -> None:
        self.out, self.until = out, time.monotonic() + seconds
        self.found: dict[str, dict[str, object]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """What compiles most comes last; until it has run, a test counts as not run."""
        items.sort(key=lambda item: _place(item.name))
        self.found = {item.nodeid: {"came to": "not run", "seconds": 0.0} for item in items}
        self._write()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Ends a test that takes too long."""
        left = int(min(EACH, self.until - time.monotonic()))
        if left < 1:
            pytest.skip("no time is left")

        def late(_number: int, _frame: FrameType | None) -> None:
            raise Late(f"{item.name} took more than {left} s")

        before = signal.signal(signal.SIGALRM, late)
        signal.alarm(left)
        try:
            return (yield)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps what a test came to: of its set-up only a failure or that it is skipped."""
        if report.when == "call" or not report.passed:
            late = report.skipped and "no time is left" in str(report.longrepr)
            self.found[report.nodeid] = {
                "came to": "not run" if late else report.outcome,
                "seconds": round(report.duration, 1),
                "lines": str(report.longrepr or "").splitlines()[-40:],
            }
            self._write()

    def _write(self) -> None:
        self.out.write_text(json.dumps(self.found, indent=1) + "\n")


def _place(name: str) -> int:
    return max((1 + place for place, part in enumerate(LAST) if part in name), default=0)


def summary(found: dict[str, dict[str, object]]) -> str:
    """How many tests came to what, in one line; found is by the tests' node ids."""
    if not found:
        return "no tests ran"
    outcomes = [str(one["came to"]) for one in found.values()]
    return ", ".join(f"{outcomes.count(one)} {one}" for one in dict.fromkeys(outcomes))


def main() -> None:
    """Runs the tests that the command line names."""
    out, seconds, *files = sys.argv[1:]
    plugin = Timed(Path(out), float(seconds))
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *files], plugins=[plugin]))


if __name__ == "__main__":
    main()
