"""Has the embedded model score the 24 words of the Learn page: `mwviz/demo/learn.json`.

python -m bench.make_words
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from mwviz.engine.model import load_model
from mwviz.engine.score import score
from mwviz.engine.steps import finish
from mwviz_app import example, measured


def measure() -> dict[str, Any]:
    """What the file holds: log p of every sampled word, by method, in nats."""
    model = load_model(device="cpu", dtype="float32")
    analysis, found = example.example(), {}
    tree = replace(analysis.tree, ids=np.array(example.TOKENS, dtype=np.int32)[analysis.tree.ids])
    for method in example.COMPARED:
        scores = finish(score(tree, analysis.view(method), model))
        found[method] = [None if np.isnan(one) else float(one) for one in scores.logprob]
    return {"model": model.label, "dtype": scores.dtype, "logprob": found}


def main() -> None:
    """Writes the file."""
    measured.PATH.write_text(json.dumps(measure(), indent=1) + "\n")


if __name__ == "__main__":
    main()
