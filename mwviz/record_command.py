"""The command that records."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mwviz.console import counted


def record(options: argparse.Namespace) -> int:
    """The recording proxy, until it is interrupted."""
    from mwviz.recorder.secrets import Secrets
    from mwviz.recorder.server import Recording, serve

    masks = options.mask or options.mask_pattern
    recording = Recording(
        options.upstream,
        Path(options.out),
        host=options.host,
        port=options.port,
        tokens=options.tokens,
        secrets=Secrets(options.mask_pattern) if masks else None,
        raw=Path(options.raw) if options.raw else None,
    )

    def ready(url: str) -> None:
        print(f"recording to {options.out}; give the harness this address:", file=sys.stderr)
        print(f"  OPENAI_BASE_URL={url}/r/ROLLOUT/v1", file=sys.stderr)
        print(f"  ANTHROPIC_BASE_URL={url}/r/ROLLOUT", file=sys.stderr, flush=True)

    recorded = serve(recording, ready=ready)
    lost = f"; {counted(recorded.lost, 'request')} could not be recorded" if recorded.lost else ""
    print(f"{counted(recorded.calls, 'call')} written to {options.out}{lost}", file=sys.stderr)
    return 0
