"""What the recording proxy costs: `python -m bench.recorder [--calls N] [--streams N]`.

The same requests go to a provider on this machine, straight and through `mwviz record` in a
process of its own. Shown are ratio and difference of the medians and of the rates of streams.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.recorder.upstream import upstream

PATH = "/v1/chat/completions"
WORDS = "Which of the boats came in at the east pier today, and which left again? " * 40


def body(at: int, *, stream: bool) -> dict[str, object]:
    messages = [{"role": "user", "content": f"{at}: {WORDS}"}]
    return {"model": "ok", "stream": stream, "messages": messages}


def latencies(url: str, calls: int) -> list[float]:
    """Milliseconds of each of `calls` requests, one after another."""
    found = []
    with httpx.Client(base_url=url, timeout=60) as client:
        for at in range(calls):
            started = time.perf_counter()
            client.post(PATH, json=body(at, stream=False)).raise_for_status()
            found.append(1000 * (time.perf_counter() - started))
    return found


def first_bytes(url: str, calls: int) -> list[float]:
    """Milliseconds to the first event of each of `calls` streams."""
    found = []
    with httpx.Client(base_url=url, timeout=60) as client:
        for at in range(calls):
            started = time.perf_counter()
            with client.stream("POST", PATH, json=body(at, stream=True)) as answer:
                pieces = answer.iter_raw()
                next(pieces)
                found.append(1000 * (time.perf_counter() - started))
                for _ in pieces:
                    pass
    return found


def rate(url: str, calls: int, streams: int) -> float:
    """Streams a second, so many at a time."""

    async def run() -> float:
        limits = httpx.Limits(max_connections=streams)
        async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
            started = time.perf_counter()
            await asyncio.gather(
                *(client.post(PATH, json=body(at, stream=True)) for at in range(calls))
            )
            return calls / (time.perf_counter() - started)

    return asyncio.run(run())


@contextmanager
def recorder(url: str, out: Path) -> Iterator[str]:
    mwviz = Path(sys.executable).with_name("mwviz")
    command = [str(mwviz), "record", "--upstream", url, "-o", str(out), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"OPENAI_BASE_URL=(\S+)/r/", line):
            break
    else:
        raise SystemExit("the recorder did not start")
    try:
        yield found[1]
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--out", type=Path, help="where to write the numbers as JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, upstream() as provider:
        out = Path(folder) / "run.jsonl"
        with recorder(provider.url, out) as proxied:
            urls = {"direct": provider.url, "recorded": proxied}
            for url in urls.values():
                latencies(url, 10)
            whole = {n: statistics.median(latencies(u, options.calls)) for n, u in urls.items()}
            first = {n: statistics.median(first_bytes(u, options.calls)) for n, u in urls.items()}
            many = {n: rate(u, options.calls, options.streams) for n, u in urls.items()}
        lines = sum(b'"t":"call"' in line for line in out.open("rb"))
    rows = {
        "whole answer, ms (median)": whole,
        "first event, ms (median)": first,
        f"streams a second, {options.streams} at a time": many,
    }
    print(f"{'':38}{'direct':>10}{'recorded':>10}{'ratio':>8}{'added':>9}")
    for name, row in rows.items():
        ratio, added = row["recorded"] / row["direct"], row["recorded"] - row["direct"]
        print(f"{name:38}{row['direct']:10.2f}{row['recorded']:10.2f}{ratio:8.2f}{added:+9.2f}")
    expected = 10 + 3 * options.calls
    print(f"{lines} of {expected} calls in the file")
    if options.out:
        options.out.write_text(json.dumps({"rows": rows, "calls": [lines, expected]}, indent=1))
    if lines != expected:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
