"""Loads a causal language model for scoring or training: where it is, how it runs, what it can do.

Only safetensors and GGUF files are read, and no code that comes with a model is ever run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from mwviz.engine import adapters, embedded
from mwviz.engine.capability import Capability, capability
from mwviz.engine.chain import Chain, called, chain
from mwviz.engine.located import Located, locate
from mwviz.errors import ModelError, first_line
from mwviz.readers import TokenizerOnly

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

    from mwviz.engine.scores import Floor

DEVICES = ("auto", "cpu", "cuda", "mps")
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}

_LOAD_ERRORS = (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError)


class MemoryShortageError(ModelError):
    """A row did not fit in the device's memory; a cheaper way to run it may."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A loaded model with everything that scoring has to know about it."""

    name: str
    revision: str
    """Digest of weights and configuration, or the hub's commit; changes when the model does."""
    module: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    """None if the model came without one; it can still score recorded ids."""
    device: torch.device
    dtype: torch.dtype
    vocabulary: int
    """Token ids it has an embedding for."""
    max_positions: int | None
    """Longest context in tokens that it was made for; None if it names no limit."""
    capability: Capability
    proofs: dict[str, Floor] = field(default_factory=dict, repr=False)
    """Filled by `mwviz.engine.check.prove`: floor of each kernel that passed its self-check."""
    noise: dict[str, dict[str, npt.NDArray[np.float64]]] = field(default_factory=dict, repr=False)
    """Filled by `mwviz.engine.floors.pool_floor`: by kernel and rollout, packed minus separate."""
    touching: dict[str, str] = field(default_factory=dict, repr=False)
    """Filled by `mwviz.engine.check.prove_lines`: by kernel, how the lines of a batch were seen to
    touch one another, in words; "" where they did not."""
    made_of: Chain | None = None
    """What it was loaded from; None if it was in memory already."""

    @property
    def label(self) -> str:
        """Name and revision, as scores carry them; the name has the adapter's behind a plus."""
        return f"{self.name}@{self.revision}"

    @property
    def base(self) -> str:
        """Name without the adapter's: whose tokenizer it has."""
        return self.name.partition("+")[0]

    @property
    def spread(self) -> bool:
        """Whether its layers are on several devices (`device_map`)."""
        return len(set(getattr(self.module, "hf_device_map", {}).values())) > 1

    @property
    def precision(self) -> str:
        """Name of the dtype."""
        return str(self.dtype).removeprefix("torch.")


def choose_device(device: str = "auto") -> torch.device:
    """The device to run on; `auto` takes CUDA, then Apple's, then the CPU.

    Raises:
        ModelError: The name is unknown, or this machine has no such device.
    """
    if device not in DEVICES:
        raise ModelError(f"unknown device {device!r}; expected one of {', '.join(DEVICES)}")
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if device == "auto":
        return torch.device(next(name for name, found in available.items() if found))
    if not available[device]:
        raise ModelError(f"this machine has no {device} device that torch can use; take cpu")
    return torch.device(device)


def load_model(
    name_or_path: str | Path = embedded.EMBEDDED,
    *,
    device: str = "cpu",
    dtype: str | None = None,
    adapter: str | Path | None = None,
) -> Model:
    """A model ready to score, in evaluation mode.

    Args:
        name_or_path: Name of the embedded model or of the demos' agent, a local folder, a GGUF
            file, a hub id, or the folder of a checkpoint that training left.
        device: One of `DEVICES`.
        dtype: One of `DTYPES`; None takes bfloat16 on CUDA and float32 elsewhere.
        adapter: Local folder of a PEFT adapter in safetensors, merged into the weights; or of a
            checkpoint that training left of all weights, which replace them.

    Raises:
        ModelError: It cannot be read, holds only pickled weights, or needs its own code.
        SetupError: The embedded model is asked for and not installed.
    """
    chosen = choose_device(device)
    precision = _dtype(dtype, chosen)
    made_of = chain(str(name_or_path), None if adapter is None else Path(adapter))
    source = locate(made_of.model)
    folders = [adapters.checked(folder) for folder in made_of.folders]
    name = "+".join((source.name, *map(called, folders)))
    try:
        with embedded.quiet_transformers():
            config = _config(source)
            requested = config._attn_implementation
            config._attn_implementation = None
            whole = [folder for folder in folders if adapters.is_whole(folder, config)]
            weights = str(whole[-1]) if whole else source.location
            module: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
                weights, config=config, dtype=precision, **_safe(source)
            )
            for folder in folders[folders.index(whole[-1]) + 1 if whole else 0 :]:
                module = adapters.adapted(module, folder)
            torch.nn.Module.to(module, chosen)
            module.train(mode=False)
    except _LOAD_ERRORS as error:
        raise ModelError(f"{name}: cannot be loaded: {first_line(error)}") from error
    loaded = wrap(
        module,
        name=name,
        revision=_revision(source, config, folders),
        tokenizer=_tokenizer(source),
        requested=requested,
    )
    return replace(loaded, made_of=made_of._replace(folders=tuple(folders)))


def load_reader(name_or_path: str | Path) -> TokenizerOnly:
    """A model's tokenizer with its chat template, without the weights.

    Raises:
        ModelError: No such model, or it holds only pickled weights.
        SetupError: The embedded model is asked for and not installed.
    """
    source = locate(chain(str(name_or_path), None).model, weights=False)
    return TokenizerOnly(source.name, source.name, _tokenizer(source))


def wrap(
    module: PreTrainedModel,
    *,
    name: str,
    revision: str,
    tokenizer: PreTrainedTokenizerBase | None = None,
    requested: str | None = None,
) -> Model:
    """A module that is in memory already as a `Model`; trainers and tests build theirs so."""
    config = module.config.get_text_config()
    limit = getattr(config, "max_position_embeddings", None)
    embedding = module.get_input_embeddings()
    assert isinstance(embedding, torch.nn.Embedding)
    return Model(
        name=name,
        revision=revision,
        module=module,
        tokenizer=tokenizer,
        device=module.device,
        dtype=module.dtype,
        vocabulary=embedding.num_embeddings,
        max_positions=None if limit is None or limit <= 0 else int(limit),
        capability=capability(module, requested),
    )


@contextmanager
def memory_errors(model: Model, tokens: int) -> Iterator[None]:
    """Says in plain words that a row did not fit, whichever allocator gave up."""
    try:
        yield
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        raise MemoryShortageError(
            f"{model.name}: a row of {tokens} tokens does not fit in the memory of {model.device}; "
            "logit_tree has shorter rows"
        ) from error


def out_of_memory(error: RuntimeError) -> bool:
    """Whether an error says that memory ran out, whichever allocator gave up."""
    words = ("can't allocate memory", "CUDA error: out of memory", "ALLOC_FAILED")
    return isinstance(error, torch.OutOfMemoryError) or any(word in str(error) for word in words)


def _dtype(name: str | None, device: torch.device) -> torch.dtype:
    if name is None:
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if name not in DTYPES:
        raise ModelError(f"unknown dtype {name!r}; expected one of {', '.join(DTYPES)}")
    return DTYPES[name]


def _safe(source: Located) -> dict[str, object]:
    """Arguments of every reading call: no remote code, no pickles, no network for what is here."""
    arguments: dict[str, object] = {"trust_remote_code": False, "local_files_only": source.local}
    if source.gguf is not None:
        return arguments | {"gguf_file": source.gguf}
    return arguments | {"use_safetensors": True}


def _config(source: Located) -> PreTrainedConfig:
    arguments = _safe(source)
    arguments.pop("use_safetensors", None)
    config: PreTrainedConfig = AutoConfig.from_pretrained(source.location, **arguments)
    return config


def _tokenizer(source: Located) -> PreTrainedTokenizerBase | None:
    arguments = _safe(source)
    arguments.pop("use_safetensors", None)
    try:
        return AutoTokenizer.from_pretrained(source.location, **arguments)
    except _LOAD_ERRORS:
        return None


def _revision(source: Located, config: PreTrainedConfig, put_on: Sequence[Path]) -> str:
    """16 hex digits that change when the weights do, or the hub's commit."""
    commit = source.commit or getattr(config, "_commit_hash", None)
    here = source.local and source.commit is None
    if not here and commit and not put_on:
        return str(commit)[:16]
    digest = hashlib.blake2b(str(commit).encode(), digest_size=8)
    folders = [Path(source.location)] if here else []
    for folder in (*folders, *put_on):
        for file in sorted(folder.iterdir()):
            if file.suffix == ".safetensors" or file.name in (source.gguf, "config.json"):
                with file.open("rb") as stream:
                    digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()
