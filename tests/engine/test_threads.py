"""Threads that wait leave the cores to others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SAID = "import os, mwviz.engine; print(os.environ['OMP_WAIT_POLICY'])"


@pytest.mark.parametrize(("given", "found"), [(None, "PASSIVE"), ("ACTIVE", "ACTIVE")])
def test_threads_wait_asleep_unless_told_otherwise(given: str | None, found: str) -> None:
    policy = {} if given is None else {"OMP_WAIT_POLICY": given}
    bare = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    command = [sys.executable, "-c", SAID]
    done = subprocess.run(command, env=bare | policy, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == found
