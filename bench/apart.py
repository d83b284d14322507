"""Runs a command of its own with a limit, and ends all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def output(command: list[str], limit: int) -> str:
    """What a command wrote to both streams, run in the checkout; what it wrote is kept at a limit.

    Args:
        command: Program and arguments.
        limit: Seconds after which its whole process group is ended.
    """
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"{process.communicate()[0]}\nstopped after {limit} s"
