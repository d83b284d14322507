"""Small fine-tunes that show what each layout does to a model.

    from mwviz.training.recipe import Recipe
    from mwviz.training.learner import learner
    from mwviz.training.loop import train, update

    recipe = Recipe(steps=30, learning_rate=1e-4, lora_rank=8, objective="nll")
    mine = learner(model, recipe)              # a copy; `mine.model` is a Model to score with
    for report in train(mine, analyses, method="packed_mask"):
        print(report.step, report.loss, report.gap)

An on-policy loop gives its own batches, with `fitted` rollouts and an advantage each:

    report = update(mine, fitted(batch, mine.model), method="exact", step=step, advantages=gains)

`recipe` (what to do; no torch) · `order` (the same batches for all arms) · `advantage` (from
recorded rewards) · `learner` (the copy and its optimiser) · `arms` (views and losses by method) ·
`loop` (one step, and all of them) · `reports` (what a step tells) · `watch` (what held-out rollouts
say; `probe` has the gradients, `evictions` counts those that a layout gets wrong) · `world` (what
else is measured then) · `plan` (a whole comparison as data) · `signals` (what it learns from, in
digests) · `results` (the run's folder) · `checkpoint` (an arm in it) · `runs` (all arms, watched
and saved) · `estimate` (time and memory first) · `outcome` (what it comes to, in sentences). The
names of arms are those of `METHODS`, `exact`, and `own:FILE` for a trainer's own batch.
"""
