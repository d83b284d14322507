"""The command line: which commands there are, and their exit status.

0 fine, 1 `check` found something or an arm of `train` failed, 2 bad input or usage.
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence

from mwviz import __version__
from mwviz.console import asides, output
from mwviz.convert_commands import add_convert, add_formats, add_simulate
from mwviz.display import visible
from mwviz.errors import MwvizError, reason
from mwviz.extras import needed
from mwviz.machine_commands import add_app, add_bench, add_doctor
from mwviz.options import Run
from mwviz.record_command import add_record
from mwviz.score_command import add_score
from mwviz.token_commands import add_leaks, add_undo, add_why
from mwviz.trace_commands import add_check, add_inspect
from mwviz.train_command import add_train

COMMANDS = (
    *(add_app, add_inspect, add_check, add_score, add_why, add_leaks, add_undo, add_train),
    *(add_formats, add_convert, add_simulate, add_record, add_bench, add_doctor),
)
"""In the order of the help."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""What a disk says that takes no more, or is broken; the system then names no file."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; its exit status."""
    with asides():
        try:
            with output(), needed():
                options = _parser().parse_args(arguments)
                run: Run = options.run
                return run(options)
        except MwvizError as error:
            print(f"mwviz: {visible(str(error))}", file=sys.stderr)
            return 2
        except OSError as error:
            if error.filename is None and error.errno not in FULL:
                raise  # No file is meant: it may be our own fault.
            where = "a file or folder" if error.filename is None else error.filename
            told = f"{where}: {reason(error)}, expected one that can be used"
            print(f"mwviz: {visible(told)}", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            print("mwviz: stopped; what was finished is kept", file=sys.stderr)
            return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mwviz", description="Debug agents trained under context compression."
    )
    parser.add_argument("--version", action="version", version=f"mwviz {__version__}")
    added = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in COMMANDS:
        add(added)
    return parser
