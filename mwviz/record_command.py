"""The command that records."""

from __future__ import annotations

import argparse
import sys

from mwviz.console import output_file
from mwviz.options import Commands, add_command, port_or_any
from mwviz.recorder.server import TOKENS
from mwviz.wording import counted


def add_record(added: Commands) -> None:
    """Options of `record`."""
    about = "record an agent: a proxy between its harness and its provider"
    example = "mwviz record --upstream https://api.example.com -o run.jsonl"
    command = add_command(added, "record", record, about=about, example=example)
    command.add_argument("--upstream", required=True, metavar="URL", help="the provider or engine")
    command.add_argument("-o", "--out", required=True, metavar="OUT", help="mwviz/1 file to grow")
    about_port = "to listen on (default: 8787); 0 takes a free one"
    command.add_argument("--port", type=port_or_any, default=8787, help=about_port)
    command.add_argument("--host", default="127.0.0.1", help="to listen on (default: this machine)")
    command.add_argument(
        "--tokens",
        choices=TOKENS,
        default="auto",
        help="engine to ask for token ids and logprobs; auto asks the upstream what it is",
    )
    command.add_argument("--mask", action="store_true", help="replace credentials in the text")
    command.add_argument(
        "--mask-pattern", action="append", default=[], metavar="REGEX", help="mask this too"
    )
    command.add_argument("--raw", metavar="F.jsonl.gz", help="also keep the bodies as they were")


def record(options: argparse.Namespace) -> int:
    """The recording proxy, until it is interrupted."""
    from mwviz.recorder.secrets import Secrets
    from mwviz.recorder.server import Recording, serve

    masks = options.mask or options.mask_pattern
    recording = Recording(
        options.upstream,
        output_file(options.out),
        host=options.host,
        port=options.port,
        tokens=options.tokens,
        secrets=Secrets(options.mask_pattern) if masks else None,
        raw=None if options.raw is None else output_file(options.raw),
    )

    def ready(url: str) -> None:
        print(f"recording to {options.out}; give the harness this address:", file=sys.stderr)
        print(f"  OPENAI_BASE_URL={url}/r/ROLLOUT/v1", file=sys.stderr)
        print(f"  ANTHROPIC_BASE_URL={url}/r/ROLLOUT", file=sys.stderr, flush=True)

    recorded = serve(recording, ready=ready)
    lost = f"; {counted(recorded.lost, 'request')} could not be recorded" if recorded.lost else ""
    print(f"{counted(recorded.calls, 'call')} written to {options.out}{lost}", file=sys.stderr)
    return 0
