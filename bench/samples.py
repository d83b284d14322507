"""Inspects every trace of a folder in one go: `python -m bench.samples DIR [-o OUT.json]`.

One line a trace: processor seconds to read and to work out tree, junctions, all views and pairs,
then its format, calls, junctions, damage and how the provider's token counts fit. A folder that is
one trace counts as one; what no format claims is said, never left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mwviz
from mwviz.errors import MwvizError
from mwviz.summary import summarise


def traces(folder: Path) -> Iterator[Path]:
    """Files below a folder, by name; a folder that reads as one trace instead of its files."""
    for entry in sorted(folder.iterdir()):
        if entry.is_file() and entry.suffix != ".md":
            yield entry
        elif entry.is_dir():
            yield from [entry] if _one(entry) else traces(entry)


def _one(folder: Path) -> bool:
    try:
        return bool(mwviz.load(folder).rollouts)
    except MwvizError:
        return False


def measured(path: Path, root: Path) -> dict[str, Any]:
    """What inspecting one trace took and found."""
    row: dict[str, Any] = {"file": str(path.relative_to(root))}
    start = time.process_time()
    try:
        trace = mwviz.load(path)
    except MwvizError as error:
        return {**row, "refused": str(error).replace(str(root), "")[:200]}
    read = time.process_time()
    rollouts = summarise(trace)["rollouts"]
    done = time.process_time()
    fits = [a.evidence.usage for a in trace.analyses if a.evidence.usage]
    return {
        **row,
        "read_seconds": round(read - start, 3),
        "inspect_seconds": round(done - read, 3),
        "format": trace.format,
        "rollouts": len(rollouts),
        "calls": sum(rollout["calls"] for rollout in rollouts),
        "junctions": sum(len(rollout["junctions"]) for rollout in rollouts),
        "evictions": sum(rollout["evictions"] for rollout in rollouts),
        "damage": len(trace.damage),
        "usage": asdict(fits[0]) | {"off": len(fits[0].off)} if fits else None,
    }


def line(row: dict[str, Any]) -> str:
    """One trace as a line of the printed table."""
    if "refused" in row:
        return f"{row['file']}: refused: {row['refused']}"
    fit = row["usage"]
    told = f"  slope {fit['slope']:.2f}, error {fit['share']:.2%}" if fit else ""
    return (
        f"{row['read_seconds']:7.2f} {row['inspect_seconds']:7.2f}  {row['format']:<18}"
        f"{row['calls']:>5} calls {row['junctions']:>3} junctions {row['damage']:>2} damaged  "
        f"{row['file']}{told}"
    )


def main() -> None:
    """Measures the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("-o", dest="out", type=Path, metavar="OUT.json")
    options = parser.parse_args()
    start = time.perf_counter()
    rows = []
    print("   read inspect  (processor seconds)")
    for path in traces(options.folder):
        rows.append(measured(path, options.folder))
        print(line(rows[-1]), flush=True)
    total = sum(r.get("read_seconds", 0) + r.get("inspect_seconds", 0) for r in rows)
    print(
        f"{len(rows)} traces, {total:.1f} processor s, {time.perf_counter() - start:.1f} s in all"
    )
    if options.out:
        options.out.write_text(json.dumps({"traces": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
