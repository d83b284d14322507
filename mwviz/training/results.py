"""The folder of a run: what was asked, every step, every look, and a checkpoint an arm.

    config.json        the plan, the command that repeats it, and what it learns from, in digests
    status.json        how far each arm has come, and why one failed
    steps.parquet      one row a step and arm
    watch.parquet      one row a look and arm
    junctions.parquet  KL, TV and bound by evictions that the layout gets wrong, a row a look,
                       arm and rollout
    arms/NAME/         the arm's checkpoint: `mwviz score --adapter` loads it

Files are replaced whole, so that a reader never sees half of one. No torch here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mwviz import __version__
from mwviz.engine.chain import ARMS
from mwviz.errors import ModelError, TraceError, ViewError, first_line, reason
from mwviz.extras import needed
from mwviz.training.plan import Plan
from mwviz.training.reports import StepReport, WatchReport
from mwviz.training.signals import changes

if TYPE_CHECKING:
    import pandas as pd

State = Literal["waiting", "running", "done", "failed", "cancelled"]
TABLES = ("steps", "watch", "junctions")
FORMAT = "mwviz-training/1"
DIVERGED = "the training diverged"
NOT_FINITE = "the weights stay as the step before left them"
NOTHING = "trains no token of"
"""In the message of an arm that ended so: the same plan would end it so again."""


class ArmStatus(NamedTuple):
    """How far an arm has come."""

    state: State
    step: int = 0
    """Steps taken."""
    message: str = ""
    """Why it failed."""


class Results:
    """One run's folder; collects reports and writes them."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.folder, self.plan = folder, plan
        self.status = dict.fromkeys(plan.methods, ArmStatus("waiting"))
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}

    @classmethod
    def start(cls, folder: Path, plan: Plan, signals: Mapping[str, Any]) -> Results:
        """A folder for a run, empty or of the same plan and rollouts; then its rows are there.

        Args:
            folder: of the run.
            plan: of the run.
            signals: what it learns from and measures by, as `signals.signals` gives it.

        Raises:
            TraceError: another run lies there, or the rollouts have changed since.
            ModelError: it cannot be written.
        """
        own = cls(folder, plan)
        if (folder / "config.json").exists():
            if plan_of(folder) != plan:
                raise TraceError(f"{folder}: holds a run of another plan; take another folder")
            own.status = statuses(folder)
            begun = {arm for arm, one in own.status.items() if one.step}
            config = _same(folder, signals, begun)
            _replace(folder / "config.json", _json(config))
            for name in TABLES:
                rows = _kept(folder, name).to_dict("records")
                own._rows[name] = [{str(key): cell for key, cell in row.items()} for row in rows]
            return own
        about = {
            "format": FORMAT,
            "mwviz": __version__,
            "command": plan.command,
            "plan": plan.to_json(),
            "signals": dict(signals),
        }
        try:
            (folder / ARMS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ModelError(f"{folder}: cannot be written: {error.strerror}") from error
        _replace(folder / "config.json", _json(about))
        own.write()
        return own

    def checkpoint(self, arm: str) -> Path:
        """Folder of an arm's checkpoint."""
        return self.folder / ARMS / re.sub(r"[^\w.-]+", "-", arm)

    def rewind(self, arm: str, step: int) -> None:
        """Forgets what an arm told beyond the steps of its checkpoint."""
        self._rows["steps"] = [
            row for row in self._rows["steps"] if row["arm"] != arm or row["step"] < step
        ]
        for name in ("watch", "junctions"):
            self._rows[name] = [
                row for row in self._rows[name] if row["arm"] != arm or row["step"] <= step
            ]

    def looked(self, arm: str, step: int) -> bool:
        """Whether an arm was watched after so many steps."""
        return any(row["arm"] == arm and row["step"] == step for row in self._rows["watch"])

    def add_step(self, arm: str, report: StepReport) -> None:
        """Takes in a step."""
        self._rows["steps"].append({"arm": arm, **report.to_json()})

    def add_watch(self, arm: str, report: WatchReport) -> None:
        """Takes in a look."""
        self._rows["watch"].append({"arm": arm, **report.to_json()})
        self._rows["junctions"] += [
            {"arm": arm, "step": report.step, **asdict(junction)} for junction in report.junctions
        ]

    def set_status(self, arm: str, state: State, step: int, message: str = "") -> None:
        """Says how far an arm has come."""
        self.status[arm] = ArmStatus(state, step, message)

    def write(self) -> None:
        """Brings the folder up to date.

        Raises:
            SetupError: Parquet cannot be written here.
            ModelError: the folder cannot be written.
        """
        import pandas as pd

        with needed():
            import_module("pyarrow")

        status = {arm: one._asdict() for arm, one in self.status.items()}
        _replace(self.folder / "status.json", _json(status))
        for name, rows in self._rows.items():
            _replace(self.folder / f"{name}.parquet", pd.DataFrame(rows).to_parquet())


def unknown_changes(folder: Path) -> str:
    """What of a run's rollouts cannot be told to have changed; "" if all of it can.

    Those of earlier versions did not keep what they learn from.
    """
    if "signals" in _document(folder / "config.json"):
        return ""
    return (
        "begun by an earlier version, which kept the tokens alone: whether rewards, "
        "log-probabilities or batches have changed since cannot be told"
    )


def _same(folder: Path, signals: Mapping[str, Any], begun: Container[str]) -> dict[str, Any]:
    """The configuration, with what arms that have not `begun` will read; all else is as it was.

    Raises:
        TraceError: they are not; says which, and what of them has changed.
    """
    before = _document(folder / "config.json")
    try:
        if "signals" in before:
            told = changes(before["signals"], signals, begun)
        else:
            tokens = {
                name: " ".join(one["tokens"] for one in signals[name])
                for name in ("trained", "watched")
            }
            told = "" if before["rollouts"] == tokens else "their tokens or calls"
    except (LookupError, TypeError, AttributeError) as error:
        raise TraceError(
            f"{folder / 'config.json'}: says nothing of its rollouts that can be read; expected "
            "what mwviz train wrote"
        ) from error
    if told:
        raise TraceError(
            f"{folder}: holds a run on rollouts that have changed since: {told}. Bring back what "
            "it began with, or take another folder"
        )
    return before | ({"signals": dict(signals)} if "signals" in before else {})


def plan_of(folder: Path) -> Plan:
    """The plan of a run.

    Raises:
        TraceError: the folder holds no run, or its plan is damaged.
    """
    path = folder / "config.json"
    try:
        return Plan.from_json(_document(path)["plan"])
    except (LookupError, TypeError, AttributeError, ViewError) as error:
        raise TraceError(
            f"{path}: holds no plan that can be read ({type(error).__name__}: {error}); expected "
            "the config.json that mwviz train wrote"
        ) from error


def statuses(folder: Path) -> dict[str, ArmStatus]:
    """How far each arm has come, in the order of the plan.

    Raises:
        TraceError: it cannot be read, or an arm of the plan is not in it.
    """
    path = folder / "status.json"
    told = _document(path)
    found = {}
    for arm in plan_of(folder).methods:
        try:
            found[arm] = ArmStatus(**told[arm])
        except (LookupError, TypeError) as error:
            raise TraceError(
                f"{path}: says nothing of arm {arm!r} that can be read; expected its state, step "
                "and message, as mwviz train wrote them"
            ) from error
    return found


def resumable(folder: Path) -> Plan:
    """The plan of a run all of whose files can be read.

    Raises:
        TraceError: one cannot; says which.
    """
    statuses(folder)
    for name in TABLES:
        _kept(folder, name)
    return plan_of(folder)


def _kept(folder: Path, name: str) -> pd.DataFrame:
    """A table of a run that has begun: it is there, empty or not."""
    path = folder / f"{name}.parquet"
    if not path.exists():
        raise TraceError(
            f"{path}: is missing, so what the run has told would be lost. Put it back, or train "
            "anew in another folder"
        )
    return table(folder, name)


def table(folder: Path, name: str) -> pd.DataFrame:
    """One of `TABLES`; empty before the first row.

    Raises:
        TraceError: it cannot be read.
    """
    import pandas as pd

    try:
        # Read whole: the file may be replaced while a reader goes through it.
        found = pd.read_parquet(BytesIO((folder / f"{name}.parquet").read_bytes()))
    except FileNotFoundError:
        return pd.DataFrame()
    except (OSError, ValueError) as error:
        told = first_line(error).rstrip(".")
        raise TraceError(
            f"{folder / name}.parquet: cannot be read: {told}. Put it back, or train anew in "
            "another folder"
        ) from error
    if len(found) and not {"arm", "step"} <= set(found):
        raise TraceError(
            f"{folder / name}.parquet: is no table of a training run: expected columns arm and "
            f"step, found {', '.join(map(str, found))}"
        )
    return found


def before_and_after(watched: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """One row an arm: each column before the first step and at the last look.

    Args:
        watched: the table `watch`.
        columns: of it.
    """
    import pandas as pd

    rows = []
    for arm, looks in watched.groupby("arm", sort=False) if len(watched) else ():
        looks = looks.sort_values("step")
        row: dict[str, Any] = {"arm": arm, "steps": int(looks["step"].iloc[-1])}
        for name in columns:
            row[f"{name} before"] = looks[name].iloc[0]
            row[f"{name} after"] = looks[name].iloc[-1]
        rows.append(row)
    return pd.DataFrame(rows)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise TraceError(
            f"{path.parent}: holds no training run: no {path.name} is in it; expected the folder "
            "that mwviz train --out named"
        ) from error
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: not the file of a training run: {reason(error)}") from error
    if not isinstance(document, dict):
        raise TraceError(f"{path}: not the file of a training run")
    return document


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written: {error.strerror}") from error
