"""Kinds of jobs for tests of pages: a scoring that is done at once, in tokens that nobody keeps."""

from __future__ import annotations

from collections.abc import Iterator

from mwviz.engine.steps import Step
from mwviz.jobs import Job, Result
from mwviz.store import Key
from tests.app import fake_jobs

ELSEWHERE = "0" * 32
"""Digest of the tokens that were scored."""


def score(job: Job) -> Iterator[Step[Result]]:
    key = Key(ELSEWHERE, "model@1", job.method, "float32", "reference", "cpu")
    yield Step(1, 1, 0.0, {"key": key._asdict()})


JOBS = {**fake_jobs.JOBS, "score": score}
