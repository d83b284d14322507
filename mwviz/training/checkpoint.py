"""Keeps a learner in a folder: weights in safetensors, the optimiser beside them, no pickles.

No random numbers are drawn while training (the order follows from the seed), so weights, optimiser
and the number of steps are all that a later run needs to go on as if it had never stopped.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from mwviz.engine.chain import ABOUT
from mwviz.engine.embedded import quiet_transformers
from mwviz.errors import ModelError, first_line
from mwviz.training.learner import Learner

ADAPTER = "adapter_model.safetensors"
OPTIMIZER = "optimizer"
"""Folder in a checkpoint: only training needs it."""


def save(learner: Learner, folder: Path, *, step: int, method: str) -> None:
    """Writes a checkpoint that appears whole or not at all; the one before is kept until then.

    Args:
        learner: as it is after `step` steps.
        folder: of this arm.
        step: steps taken.
        method: the arm.

    Raises:
        ModelError: the folder cannot be written.
    """
    part, old = (folder.with_name(f"{folder.name}.{end}") for end in ("part", "old"))
    try:
        shutil.rmtree(part, ignore_errors=True)
        (part / OPTIMIZER).mkdir(parents=True)
        _save_weights(learner, part)
        save_file(_optimizer_tensors(learner), part / OPTIMIZER / "state.safetensors")
        made_of = learner.source.made_of
        on = made_of.folders if made_of is not None and learner.adapter is not None else ()
        about = {
            "model": None if made_of is None else _named(made_of.model),
            "adapters": [str(folder) for folder in on],
            "step": step,
            "method": method,
            "base": learner.source.label,
            "recipe": learner.recipe.to_json(),
        }
        (part / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        part.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise ModelError(f"{folder}: a checkpoint cannot be written: {error.strerror}") from error


def load(learner: Learner, folder: Path) -> int:
    """Puts a checkpoint's weights and optimiser into a learner; gives the steps it had taken.

    A checkpoint that was being replaced when the process died is found too. 0 if there is none.

    Raises:
        ModelError: it belongs to another model or recipe, or is damaged.
    """
    old = folder.with_name(f"{folder.name}.old")
    if not folder.exists() and old.exists():
        old.rename(folder)
    if not folder.exists():
        return 0
    try:
        about = json.loads((folder / ABOUT).read_text())
        for name, mine in (
            ("base", learner.source.label),
            ("recipe", learner.recipe.to_json()),
        ):
            if about[name] != mine:
                raise ModelError(
                    f"{folder}: was trained with {name} {about[name]}, not {mine}; "
                    "take another folder"
                )
        _load_weights(learner, folder)
        _load_optimizer(learner, load_file(folder / OPTIMIZER / "state.safetensors"))
        return int(about["step"])
    except ModelError:
        raise
    except (OSError, ValueError, LookupError, TypeError, RuntimeError, SafetensorError) as error:
        raise ModelError(
            f"{folder}: the checkpoint is damaged: {first_line(error)}. Put it back, or remove "
            "this folder and resume: the arm then begins anew"
        ) from error


def _named(model: str) -> str:
    """A path that holds wherever it is read; a name stays one."""
    return str(Path(model).resolve()) if Path(model).exists() else model


def _save_weights(learner: Learner, folder: Path) -> None:
    if learner.adapter is None:
        with quiet_transformers():
            learner.model.module.save_pretrained(folder)
        return
    from peft import get_peft_model_state_dict

    tensors = get_peft_model_state_dict(learner.adapter, save_embedding_layers=False)
    save_file({name: part.contiguous() for name, part in tensors.items()}, folder / ADAPTER)
    learner.adapter.peft_config["default"].save_pretrained(str(folder))


@torch.no_grad()
def _load_weights(learner: Learner, folder: Path) -> None:
    if learner.adapter is None:
        tensors: dict[str, torch.Tensor] = {}
        for file in sorted(folder.glob("*.safetensors")):
            tensors |= load_file(file)
        parts = dict(learner.model.module.named_parameters())
        for name, part in parts.items():
            part.copy_(tensors[name])
        return
    from peft import set_peft_model_state_dict

    set_peft_model_state_dict(learner.adapter, load_file(folder / ADAPTER))


def _optimizer_tensors(learner: Learner) -> dict[str, torch.Tensor]:
    """The optimiser's state, by parameter and name."""
    found = {}
    for index, part in enumerate(learner.parameters):
        for name, value in learner.optimizer.state.get(part, {}).items():
            found[f"{index}.{name}"] = value.contiguous()
    return found


def _load_optimizer(learner: Learner, tensors: dict[str, torch.Tensor]) -> None:
    parts = learner.parameters
    for key, value in tensors.items():
        index, name = key.split(".", 1)
        part = parts[int(index)]
        # The count of steps stays on the CPU, as the optimiser keeps it.
        learner.optimizer.state[part][name] = value if name == "step" else value.to(part.device)
