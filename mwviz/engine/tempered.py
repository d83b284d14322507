"""Log-probabilities at the temperature that sampled a token: logits are divided by it.

From the final hidden states that a pass leaves; logits of all targets are never stored. Letters: E
targets, H width.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from mwviz.engine.vocabulary import Head


@torch.inference_mode()
def logprobs_at(
    out: Head, hidden: torch.Tensor, *, token: npt.NDArray[np.int32], temperature: npt.ArrayLike
) -> npt.NDArray[np.float32]:
    """float32 (E,): log-probability of each token in nats, NaN where the temperature is.

    Args:
        out: the model's output head.
        hidden: (E, H) final hidden states at the queries.
        token: int32 (E,): ids.
        temperature: float (E,): above 0.
    """
    found = np.full(len(token), np.nan, dtype=np.float32)
    warmth = np.asarray(temperature, dtype=np.float32)
    known = np.flatnonzero(~np.isnan(warmth))
    device = out.weight.device
    for chunk in out.chunks(len(known)):
        some = known[chunk]
        logits = out.logits(hidden[torch.from_numpy(some)].to(device))
        scaled = logits / torch.from_numpy(warmth[some]).to(device)[:, None]
        ids = torch.from_numpy(token[some].astype(np.int64)).to(device)
        said = scaled.log_softmax(dim=-1).gather(1, ids[:, None])[:, 0]
        found[some] = said.float().cpu().numpy()
    return found
