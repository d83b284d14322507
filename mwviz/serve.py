"""Starts the browser app as a process of its own, closed to everything but this machine."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mwviz.engine.chain import chain
from mwviz.engine.located import locate
from mwviz.errors import SetupError

OPTION = "--launch="
HOSTS = ("127.0.0.1", "localhost")
FLAGS = {
    "server.address": HOSTS[0],
    "server.fileWatcherType": "none",
    "server.showEmailPrompt": "false",
    "browser.gatherUsageStats": "false",
    "client.showErrorDetails": "type",
    "client.showErrorLinks": "false",
    "client.toolbarMode": "minimal",
    "runner.magicEnabled": "false",
    "theme.light.primaryColor": "#1F6FB4",
    "theme.dark.primaryColor": "#5AA9F0",
}
"""Streamlit options: no other host, no telemetry, no trace text in error pages or links.

No magic either: nothing is shown that was not told to be, and a page starts sooner.
"""


ENDINGS = (
    *(".json", ".jsonl", ".traj", ".eval", ".db"),
    *(".gz", ".zst", ".zip", ".tar", ".tgz"),
)
"""Of files in a folder that may be traces."""
ONE_TRACE = (("base_state.json", "events"), ("events/0.json",), ("message", "part"))
"""What a folder holds that is one trace: of OpenHands, its first generation, OpenCode."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What the user named on the command line; the app offers nothing else."""

    paths: tuple[str, ...] = ()
    """Absolute paths of trace files and folders; none opens the built-in demo."""
    models: tuple[str, ...] = ()
    """Models offered besides the embedded one."""
    device: str | None = None
    """`cpu`, `cuda` or `mps`; None lets the engine choose."""

    def to_argument(self) -> str:
        """One command-line argument that `from_arguments` reads."""
        return OPTION + json.dumps(asdict(self))

    @classmethod
    def from_arguments(cls, arguments: Sequence[str]) -> Launch:
        """The launch that `to_argument` wrote; an empty one if `arguments` hold none."""
        for argument in arguments:
            if argument.startswith(OPTION):
                told = json.loads(argument.removeprefix(OPTION))
                return cls(tuple(told["paths"]), tuple(told["models"]), told["device"])
        return cls()


def offered(folder: Path) -> Iterator[Path]:
    """The files under a folder that may be traces, and the folders that are one; in no order."""
    for place, inside, names in os.walk(folder):
        here = Path(place)
        if any(all((here / mark).exists() for mark in marks) for marks in ONE_TRACE):
            inside.clear()  # what lies in it is no trace of its own
            yield here
        else:
            yield from (here / name for name in names if name.endswith(ENDINGS))


def notes(paths: Sequence[str | Path]) -> Iterator[str]:
    """Sentences on folders that nothing can be opened from yet."""
    for path in map(Path, paths):
        if path.is_dir() and next(offered(path), None) is None:
            yield (
                f"{path}: holds no trace yet, expected files that end in {', '.join(ENDINGS)}; "
                "one that is put there is offered too"
            )


def serve(
    paths: Sequence[str | Path],
    port: int | None = None,
    *,
    models: Sequence[str] = (),
    device: str | None = None,
) -> int:
    """Runs the app until it is stopped; the exit status of its process.

    Args:
        paths: Trace files and folders to offer.
        port: TCP port on 127.0.0.1; None takes the first free one from 8501.
        models: Names or paths of models to offer.
        device: Where models run.

    Raises:
        SetupError: A path does not exist, or the app's packages are not installed.
        ModelError: There is no such model.
    """
    missing = [str(path) for path in paths if not (str(path) and Path(path).exists())]
    if missing:
        raise SetupError(f"{missing[0] or repr('')}: no such file or folder")
    for model in models:
        locate(chain(model, None).model)
    absolute = tuple(str(Path(path).resolve()) for path in paths)
    launch = Launch(absolute, tuple(models), device)
    with subprocess.Popen(command(entry(), port, launch)) as process:
        before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            return process.wait()
        except KeyboardInterrupt:
            process.wait()
            return 0
        finally:
            signal.signal(signal.SIGTERM, before)


def entry() -> Path:
    """The app's script in the installed package.

    Raises:
        SetupError: Streamlit is not installed.
    """
    if importlib.util.find_spec("streamlit") is None:
        raise SetupError("the app needs Streamlit: pip install 'mwviz[app]'")
    spec = importlib.util.find_spec("mwviz_app")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name("main.py")


def command(script: Path, port: int | None, launch: Launch) -> list[str]:
    """Arguments of the process that serves `script` under this module's flags."""
    flags = [f"--{name}={value}" for name, value in FLAGS.items()]
    flags += [f"--server.allowedHosts={host}" for host in HOSTS]
    if port is not None:
        flags.append(f"--server.port={port}")
    python = [sys.executable, "-m", "streamlit", "run"]
    return [*python, str(script), *flags, "--", launch.to_argument()]
