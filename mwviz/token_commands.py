"""The commands about single tokens and junctions: `why`, `leaks` and `undo`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mwviz.analysis import Analysis
from mwviz.console import loaded, open_trace, print_json, reader_named, watched
from mwviz.display import visible
from mwviz.engine.embedded import EMBEDDED
from mwviz.engine.steps import Step, remaining
from mwviz.errors import ViewError
from mwviz.formats.fields import named
from mwviz.options import Commands, add_command, add_model, add_place, add_reader, add_view, span
from mwviz.rendering import RECORDED
from mwviz.wording import counted

if TYPE_CHECKING:
    from mwviz.attended import Attended, Seen
    from mwviz.engine.model import Model
    from mwviz.readers import Reader
    from mwviz.restored import Cost
    from mwviz.why import Why

LONGEST = 60
"""Characters of a text that a line shows."""
MOST_SOURCES = 10
"""Sources that the text lists; JSON has all."""
MOST_LOOKS = 5
"""Texts that it lists by attention; JSON has all."""


def add_why(added: Commands) -> None:
    """Options of `why`."""
    about = "tell what one sampled token sees and misses in a view, and what each text does to it"
    example = "mwviz why run.jsonl --call 9 --token 3 --view rightmost"
    command = add_command(added, "why", why, about=about, example=example)
    add_place(command, call="that sampled the token")
    command.add_argument("--token", type=int, required=True, metavar="T", help="from 0")
    add_view(command)
    about_none = "only what is seen and missed, in the tokens of --model if it is named"
    command.add_argument("--no-model", action="store_true", help=about_none)
    about_model = f"folder or name (default: {EMBEDDED})"
    add_model(command, default=None, about=about_model)


def add_leaks(added: Commands) -> None:
    """Options of `leaks`."""
    about = "list the sampled tokens that a piece of text leaks into, or is missing from"
    example = "mwviz leaks run.jsonl --call 3 --span 34:76 --view replay"
    command = add_command(added, "leaks", leaks, about=about, example=example)
    add_place(command, call="whose text is meant")
    about_span = "tokens of its prompt + completion, from 0, B excluded (default: its completion)"
    command.add_argument("--span", type=span, metavar="A:B", help=about_span)
    add_view(command)
    add_reader(command)


def add_undo(added: Commands) -> None:
    """Options of `undo`."""
    about = "put back what evictions removed, score the calls behind them again: what was lost"
    example = "mwviz undo run.jsonl --call 3"
    command = add_command(added, "undo", undo, about=about, example=example)
    add_place(command, call="behind the junction (default: all junctions)", required=False)
    add_model(command)


def why(options: argparse.Namespace) -> int:
    """What one token sees and misses under a view, and what each text does to it."""
    from mwviz.why import explaining, find_target

    model = None if options.no_model else loaded(options)
    analysis, view = _chosen(options, model or reader_named(options.model))
    target = find_target(analysis, options.call, options.token)
    place = f"token {options.token} of call {options.call}"
    found: Why = watched(explaining(analysis, view, target, model), place)
    if options.json:
        told = asdict(found) | _about(analysis, view)
        told["sources"] = [span._asdict() for span in found.sources]
        told["classes"] = [one._asdict() for one in found.classes]
        told["causes"] = found.causes.to_json() if found.causes else None
        told["attention"] = found.attention.to_json() if found.attention else None
        told["looks"] = [
            {**one.span._asdict(), "here": one.here, "true": one.true} for one in found.looks
        ]
        print_json(told)
    else:
        _print_tokens(analysis)
        _print_why(found, view)
    return 0


def _print_why(found: Why, view: str) -> None:
    print(visible(f"call {found.call}, token {found.offset}: {_short(found.text)} under {view}"))
    for sentence in found.sentences:
        print(f"  {sentence}")
    if found.causes is not None:
        drift = found.causes.view - found.causes.true
        print(
            f"  log p {found.causes.true:.3f} nats in its true context, {found.causes.view:.3f} "
            f"here: drift {drift:+.3f} (noise below {found.floor:.2g})"
        )
        print(f"  {'class':<10}{'keys':>9}{'attention':>11}{'effect, nats':>14}")
    for one in found.classes:
        mass = "-" if one.mass is None else f"{one.mass:.1%}"
        change = "-" if one.change is None else f"{one.change:+.3f}"
        print(f"  {one.name:<10}{one.keys:>9,}{mass:>11}{change:>14}")
    if found.note:
        print(visible(f"  ! no attention: {found.note}"))
    if found.attention is not None:
        _print_looks(found.looks, found.attention)
    effects = {} if found.causes is None else dict(found.causes.causes)
    order = sorted(range(len(found.sources)), key=lambda at: -abs(effects.get(at, 0.0)))
    for at in order[:MOST_SOURCES]:
        span = found.sources[at]
        change = f"{effects[at]:+8.3f} nats" if at in effects else f"{'':>13}"
        verb = "sees" if span.leaks else "misses"
        many = counted(span.tokens, "token")
        told = f"{verb} {many} ({span.name}) of {span.place}: {_short(span.text)}"
        print(visible(f"  {change}  {told}"))
    if len(order) > MOST_SOURCES:
        print(f"  and {counted(len(order) - MOST_SOURCES, 'more source')}; --json has them all")


def _print_looks(looks: tuple[Seen, ...], told: Attended) -> None:
    """Where the token looks: not what that does to it, which the effects tell."""
    for sentence in (told.sentence, told.depths, told.terms):
        print(f"  {sentence}")
    print(f"  {'here':>7}{'true':>8}  the texts it looks at most, mean over layers and heads")
    for one in looks[:MOST_LOOKS]:
        here, true = (f"{'-' if side is None else f'{side:.1%}':>7}" for side in one[1:])
        place = f"{counted(one.span.tokens, 'token')} ({one.span.name}) of {one.span.place}"
        print(visible(f"  {here} {true}  {place}: {_short(one.span.text)}"))


def leaks(options: argparse.Namespace) -> int:
    """Which sampled tokens a piece of text leaks into, or is missing from, under a view."""
    from mwviz.leaks import reaches

    analysis, view = _chosen(options, reader_named(options.model))
    tree = analysis.tree
    if not 0 <= options.call < len(tree.tip):
        raise ViewError(f"no call {options.call}: there are {len(tree.tip)}, counted from 0")
    context = tree.context(options.call)
    start, stop = options.span or (int(tree.prompt_length[options.call]), len(context))
    if not 0 <= start < stop <= len(context):
        raise ViewError(
            f"call {options.call} has {counted(len(context), 'token')} of prompt and completion; "
            f"expected --span A:B within them, found {start}:{stop}"
        )
    nodes = context[start:stop]
    found = reaches(analysis, view, nodes)
    hit = [
        {
            "call": int(tree.call[one.target]),
            "token": int(tree.offset[one.target]),
            "class": one.name,
            "tokens": one.tokens,
        }
        for one in found
    ]
    text = analysis.decoder.text(tree.ids[nodes])
    if options.json:
        about = {**_about(analysis, view), "call": options.call}
        print_json({**about, "span": [start, stop], "text": text, "reaches": hit})
        return 0
    _print_tokens(analysis)
    print(visible(f"tokens {start}-{stop - 1} of call {options.call} under {view}: {_short(text)}"))
    by_call: dict[tuple[int, str], list[int]] = {}
    for one in found:
        place = int(tree.call[one.target]), one.name
        by_call.setdefault(place, []).append(int(tree.offset[one.target]))
    for (call, name), tokens in sorted(by_call.items()):
        many = counted(len(tokens), "token")
        print(f"  {name:<8} for {many} of call {call}: {tokens[0]} to {tokens[-1]}")
    if not hit:
        print("  where it belongs for every token that the view trains")
    return 0


def undo(options: argparse.Namespace) -> int:
    """What evictions cost: the calls behind each, scored again with the evicted text put back."""
    model = loaded(options)
    analysis, _ = _chosen(options, model)
    steps = _undoing(analysis, model, options.call)
    told: list[dict[str, Any]] = watched(steps, analysis.rollout.id)
    if options.call is not None and not told:
        calls = ", ".join(str(junction.call) for junction in analysis.junction_list) or "none"
        raise ViewError(f"no junction before call {options.call}; there is one before call {calls}")
    if options.json:
        print_json({**_about(analysis), "junctions": told})
    else:
        _print_tokens(analysis)
        for one in told:
            _print_undone(one)
        if not told:
            print("no junction: nothing was ever evicted")
    return 0


def _undoing(
    analysis: Analysis, model: Model, call: int | None
) -> Iterator[Step[list[dict[str, Any]]]]:
    """Steps of undoing each junction, or only that before one call; the last has what JSON has."""
    from mwviz.restored import cost

    told: list[dict[str, Any]] = []
    wanted = [
        (index, junction)
        for index, junction in enumerate(analysis.junction_list)
        if call in (None, junction.call)
    ]
    began = time.perf_counter()
    for done, (index, junction) in enumerate(wanted):
        yield Step(done, len(wanted), remaining(time.perf_counter() - began, done, len(wanted)))
        about = {"call": junction.call, "kind": junction.kind}
        try:
            told.append({**about, **_cost_json(analysis, cost(analysis, index, model))})
        except ViewError as error:
            told.append({**about, "refused": str(error)})
    yield Step(len(wanted), len(wanted), 0.0, told)


def _cost_json(analysis: Analysis, found: Cost) -> dict[str, Any]:
    tree = analysis.tree
    return {
        "put_back": found.tokens,
        "floor": found.floor,
        "calls": [one._asdict() for one in found.calls],
        "most": [
            {
                "call": int(tree.call[one.target]),
                "token": int(tree.offset[one.target]),
                "text": analysis.decoder.text(tree.ids[tree.token[one.target : one.target + 1]]),
                "change": one.change,
            }
            for one in found.most
        ],
    }


def _print_undone(one: dict[str, Any]) -> None:
    print(f"junction before call {one['call']} ({one['kind']})")
    if "refused" in one:
        print(visible(f"  refused: {one['refused']}"))
        return
    print(
        f"  {counted(one['put_back'], 'evicted token')} put back; below, log p with them "
        "minus without, and the information lost, KL(with || without); noise below "
        f"{one['floor']:.2g} nats"
    )
    for call in one["calls"]:
        print(
            f"  call {call['call']:>4}: {counted(call['targets'], 'token')}, mean change "
            f"{call['change']:+.3f} nats, KL {call['kl']:.3g} nats"
        )
    for most in one["most"]:
        place = f"call {most['call']}, token {most['token']}"
        print(visible(f"    {most['change']:+8.3f} nats  {place}: {_short(most['text'])}"))


def _chosen(options: argparse.Namespace, reader: Reader | None) -> tuple[Analysis, str]:
    """The rollout that was asked for, as it is read, and the view, with its batch aligned."""
    trace = open_trace(options.file, options.map)
    known = {analysis.rollout.id: analysis for analysis in trace.analyses}
    name = options.rollout or next(iter(known))
    if name not in known:
        raise ViewError(f"no rollout {name!r}; there are {named(list(map(repr, known)))}")
    analysis, view = known[name], getattr(options, "view", "exact")
    if reader is not None:
        analysis = analysis.for_model(reader)
    if Path(view).is_file():
        view = analysis.add_batch(view).view.method
    return analysis, view


def _about(analysis: Analysis, view: str | None = None) -> dict[str, str]:
    """What the JSON of all three says first."""
    about = {"rollout": analysis.rollout.id, "rendering": analysis.encoding.rendering}
    return about if view is None else {**about, "view": view}


def _print_tokens(analysis: Analysis) -> None:
    """Whose tokens are counted, unless they are the recorded ones."""
    encoding = analysis.encoding
    if encoding.rendering != RECORDED:
        print(visible(f"tokens: {encoding.rendering}, cut by {encoding.tokenizer}"))
        for warning in encoding.warnings:
            print(visible(f"  ! {warning}"))


def _short(text: str) -> str:
    """A text in quotes, on one line, cut; white space alone as its signs."""
    line = " ".join(text.split()) or text
    return repr(line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}")
