"""What is put on a model: a PEFT adapter, or a checkpoint of all weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from transformers import AutoConfig

from mwviz.errors import ModelError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

WHOLE = "model.safetensors"
"""All weights, in the folder of a checkpoint."""


def checked(folder: Path) -> Path:
    """The folder by its full path, if it holds an adapter or a checkpoint.

    Raises:
        ModelError: It does not.
    """
    if not folder.is_dir():
        raise ModelError(f"{folder}: no such folder, expected that of an adapter or a checkpoint")
    if not any((folder / name).is_file() for name in ("adapter_model.safetensors", WHOLE)):
        raise ModelError(f"{folder.name}: holds no adapter_model.safetensors, and no {WHOLE}")
    return folder.resolve()


def is_whole(folder: Path, config: PreTrainedConfig) -> bool:
    """Whether a checkpoint holds all weights, which must then be those of the same architecture.

    Raises:
        ModelError: They are of another one.
    """
    if not (folder / WHOLE).is_file():
        return False
    own = AutoConfig.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    for name in ("model_type", "hidden_size", "num_hidden_layers", "vocab_size"):
        mine, wanted = getattr(own, name, None), getattr(config, name, None)
        if mine != wanted:
            raise ModelError(f"{folder.name}: its {name} is {mine}, the model's is {wanted}")
    return True


def adapted(module: PreTrainedModel, adapter: Path) -> PreTrainedModel:
    """The model with an adapter merged into its weights."""
    from peft import PeftModel

    put_on = PeftModel.from_pretrained(module, str(adapter), is_trainable=False)
    merged: PreTrainedModel = put_on.merge_and_unload()
    return merged
