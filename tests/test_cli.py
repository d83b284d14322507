from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pandas as pd
import pytest
from transformers import LlamaConfig

from mwviz.cli import _parser, main
from mwviz.limits import Finding, junit
from mwviz.views import METHODS
from tests.engine.tiny import module_of

CASES = Path(__file__).parent / "data" / "cases"
T1 = str(CASES / "vector-1-running-example" / "calls.jsonl")
T3 = str(CASES / "vector-3-summary-tail" / "calls.jsonl")
RECORDED = ("--upstream", "http://h", "-o", "gone/x.jsonl")
COMMANDS = (
    "app",
    "inspect",
    "check",
    "score",
    "why",
    "leaks",
    "undo",
    "formats",
    "doctor",
    "convert",
    "simulate",
    "train",
    "record",
    "bench",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A random two-layer model on disk."""
    folder = tmp_path_factory.mktemp("model")
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=128,
    )
    module_of(config).save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(arguments) == status
    return capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_ends_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert f"example: mwviz {command}" in " ".join(capsys.readouterr().out.split())


def test_every_command_is_listed() -> None:
    listed = _parser().format_help()
    assert all(f"    {command} " in listed for command in COMMANDS)


def test_inspect_prints_every_key_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(printed(capsys, "inspect", T1, "--json"))
    assert set(told) == {"rollouts", "damage"}
    (rollout,) = told["rollouts"]
    assert set(rollout) == {
        "id", "calls", "lineages", "junctions", "evictions", "leaves", "tokens", "views",
        "fidelity", "semantics", "tokenizer", "rendering", "evidence", "warnings",
    }  # fmt: skip
    assert set(rollout["evidence"]) == {"usage", "cache", "retokenised"}
    assert set(rollout["tokens"]) == {"union", "tree", "branches", "calls", "sampled"}
    assert set(rollout["junctions"][0]) == {
        "call", "kind", "depth", "evicted", "inserted", "retained", "evidence", "semantics",
    }  # fmt: skip
    assert set(rollout["views"]) == {method.name for method in METHODS}
    assert set(rollout["views"]["replay"]) == {
        "targets", "coverage", "uncovered", "multiplicity", "diverging", "pairs", "badge",
    }  # fmt: skip
    assert set(rollout["views"]["replay"]["pairs"]) == {
        "agree", "future", "erased", "stale", "foreign", "lost", "shifted", "duplicate", "tainted",
    }  # fmt: skip


def test_inspect_counts_how_often_a_token_trains_and_why_some_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    views = json.loads(printed(capsys, "inspect", T1, "--json"))["rollouts"][0]["views"]
    assert views["rightmost"]["multiplicity"] == {"0": 3, "1": 10}
    assert views["rightmost"]["uncovered"] == {"not part of the row that is trained": 3}
    assert views["packed_mask"]["multiplicity"] == {"1": 13}
    assert views["packed_mask"]["uncovered"] == {}


def test_inspect_shows_the_same_numbers_to_people(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "inspect", T1)
    assert "4 calls" in text
    assert "3 evictions" in text
    assert "76.9%" in text
    assert all(method.name in text for method in METHODS)


def test_where_nothing_was_sampled_no_coverage_is_told(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nothing.jsonl"
    path.write_text('{"prompt_ids": [1, 2], "completion_ids": []}\n')
    (rollout,) = json.loads(printed(capsys, "inspect", str(path), "--json"))["rollouts"]
    assert {view["coverage"] for view in rollout["views"].values()} == {None}
    said = "nothing was sampled: there is nothing that a view could train or cover"
    assert said in rollout["warnings"]
    text = printed(capsys, "inspect", str(path))
    assert re.search(r"rightmost +- +0", text)
    assert "%" not in text
    assert main(["check", str(path), "--min-coverage", "1"]) == 0
    assert said in capsys.readouterr().err
    asked = ("score", str(path), "--model", model, "--method", "rightmost")
    (rollout,) = json.loads(printed(capsys, *asked, "--json"))["rollouts"]
    assert rollout["methods"]["rightmost"]["coverage"] is None
    assert re.search(r"rightmost +- +-", printed(capsys, *asked))


def test_inspect_says_that_its_claims_are_of_what_the_log_tells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    doubt = "claims: of what the log tells. The contexts are rebuilt from an event log."
    rebuilt = Path(__file__).parent / "data" / "formats" / "openhands" / "b-conversation"
    assert doubt in printed(capsys, "inspect", str(rebuilt))
    exact = printed(capsys, "inspect", T1)
    assert "claims:" not in exact
    assert "depth: tokens in front that stayed" in exact


def test_inspect_reads_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(Path(T1).read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert json.loads(printed(capsys, "inspect", "-", "--json"))["rollouts"][0]["calls"] == 4


@pytest.mark.parametrize(
    ("limits", "status", "rules"),
    [
        ((), 1, ["max-future"]),
        (("--max-future", "1"), 0, []),
        (("--view", "replay"), 0, []),
        (("--view", "replay", "--max-stale", "2"), 1, ["max-stale"]),
        (("--min-coverage", "0.8"), 1, ["min-coverage"]),
        (("--min-coverage", "0.75"), 0, []),
        (("--view", "packed_mask", "--max-future", "0", "--min-coverage", "1"), 0, []),
    ],
)
def test_check_exits_1_exactly_if_a_limit_is_broken(
    limits: tuple[str, ...], status: int, rules: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = json.loads(printed(capsys, "check", T3, *limits, "--format", "json", status=status))
    assert told["ok"] == (status == 0)
    assert [finding["rule"] for finding in told["findings"]] == rules
    keys = {"rollout", "rule", "limit", "value", "where"}
    assert all(set(finding) == keys for finding in told["findings"])


@pytest.mark.parametrize("form", ["text", "json", "junit"])
def test_a_torn_last_line_is_told_and_fails_nothing(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "growing.jsonl"
    path.write_text(Path(T1).read_text() + '{"prompt_ids": [0, 1')
    lines = len(Path(T1).read_text().splitlines()) + 1
    asked = ["check", str(path), "--view", "packed_mask", "--format", form]
    assert main(asked) == 0
    out, err = capsys.readouterr()
    what = "incomplete last record (20 bytes)"
    assert err.splitlines()[0] == f"mwviz: {path}:{lines}: {what}; kept nothing"
    if form == "json":
        damage = [{"line": lines, "bytes": 20, "what": what, "kept": "nothing"}]
        assert json.loads(out) == {"ok": True, "findings": [], "damage": damage}
    whole = json.loads(printed(capsys, "check", T1, "--max-future", "5", "--format", "json"))
    assert whole == {"ok": True, "findings": [], "damage": []}


def test_a_trainers_batch_is_judged_beside_the_methods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = tmp_path / "batch.jsonl"
    batch.write_text(
        json.dumps({"input_ids": [0, 1, 7, 4, 5, 99], "loss_mask": [0, 0, 1, 1, 0, 0]})
    )
    told = json.loads(printed(capsys, "inspect", T3, "--own", str(batch), "--json"))
    own = told["rollouts"][0]["views"]["batch.jsonl"]
    assert (own["tokens"], own["unaligned"]) == (6, 1)
    assert own["pairs"]["future"] == 1
    limits = ("--max-future", "0", "--format", "json")
    told = json.loads(printed(capsys, "check", T3, "--view", str(batch), *limits, status=1))
    assert told["findings"][0]["rule"] == "max-future"


def test_check_writes_junit_that_parses(capsys: pytest.CaptureFixture[str]) -> None:
    suite = ElementTree.fromstring(printed(capsys, "check", T3, "--format", "junit", status=1))
    assert (suite.get("failures"), len(suite.findall("testcase/failure"))) == ("1", 1)


def test_junit_is_the_same_in_every_locale() -> None:
    told = junit([Finding("rüben\x00", "max-future", 0, 2, "call 1: 2 future pairs")], 1)
    assert told.isascii()
    case = ElementTree.fromstring(told).find("testcase")
    assert case is not None
    assert case.get("classname") == "rüben\N{REPLACEMENT CHARACTER}"


def test_check_measures_drift_with_a_model(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    strict = ("check", T3, "--model", model, "--max-drift", "0.001", "--format", "json")
    (finding,) = json.loads(printed(capsys, *strict, status=1))["findings"]
    assert finding["rule"] == "max-drift"
    assert finding["value"] > 0.01
    exact = ("check", T3, "--view", "packed_mask", "--model", model, "--max-drift", "0.001")
    printed(capsys, *exact)


def scored(model: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    told = json.loads(printed(capsys, "score", T1, "--model", model, "--json", *arguments))
    methods: dict[str, Any] = told["rollouts"][0]["methods"]
    return methods


def test_score_all_judges_every_method(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    methods = scored(model, capsys, "--method", "all")
    assert set(methods) == {method.name for method in METHODS}
    required = {
        "mean_abs_drift", "max_abs_drift", "mean_abs_gap", "max_abs_gap", "covered", "diverging",
        "drift_diverging", "floor", "kernel", "dtype", "seconds",
    }  # fmt: skip
    assert all(required <= set(numbers) for numbers in methods.values())
    assert all({"p50", "p999", "threshold"} <= set(n["floor"]) for n in methods.values())
    for method in METHODS:
        numbers = methods[method.name]
        if method.exact:
            assert numbers["max_abs_drift"] < 1e-4
            assert numbers["covered"] == 13
    assert methods["rightmost"]["drift_diverging"] > 0.01
    assert methods["rightmost"]["covered"] == 10
    assert methods["rightmost"]["mean_abs_gap"] is None


def test_score_exact_says_which_method_it_took(
    model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (numbers,) = scored(model, capsys, "--method", "exact").values()
    assert numbers["method"] in {"packed_mask", "logit_tree"}


def test_several_methods_are_scored_in_the_order_of_their_names(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scores.parquet"
    asked = ("--method", "replay, exact,rightmost,replay", "--details", "--out", str(out))
    methods = scored(model, capsys, *asked)
    assert list(methods) == ["replay", "exact", "rightmost"]
    for name in ("replay", "rightmost"):
        (alone,) = scored(model, capsys, "--method", name).values()
        assert {key: methods[name][key] for key in alone} == alone
    assert pd.read_parquet(out)["method"].unique().tolist() == list(methods)
    batch = tmp_path / "batch.jsonl"
    batch.write_text(json.dumps({"input_ids": [0, 1], "loss_mask": [0, 1]}))
    beside = scored(model, capsys, "--method", "rightmost,replay", "--own", str(batch))
    assert list(beside) == ["rightmost", "replay", "batch.jsonl"]


def test_scores_are_kept_and_found_again(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    first = scored(model, capsys, "--method", "rightmost")
    assert scored(model, capsys, "--method", "rightmost") == first


def test_score_writes_one_row_a_target_and_method(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scores.parquet"
    printed(capsys, "score", T1, "--model", model, "--method", "replay", "--out", str(out))
    table = pd.read_parquet(out)
    assert len(table) == 13
    assert {"rollout", "method", "drift", "call", "offset", "stale"} <= set(table.columns)


def test_convert_gives_a_file_with_the_same_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    printed(capsys, "convert", T1, str(out))
    before = json.loads(printed(capsys, "inspect", T1, "--json"))["rollouts"][0]
    after = json.loads(printed(capsys, "inspect", str(out), "--json"))["rollouts"][0]
    assert {k: v for k, v in after.items() if k != "id"} == {
        k: v for k, v in before.items() if k != "id"
    }


@pytest.mark.parametrize(
    ("name", "kind"), [("out.jsonl", "packed"), ("out.safetensors", "branches")]
)
def test_convert_refuses_a_name_that_says_another_format(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", T1, str(tmp_path / name), "--as", kind]) == 2
    assert "expected a name ending in" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


def test_what_cannot_be_written_is_said_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", T1, str(tmp_path / "no" / "out.jsonl")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_check_warns_of_contexts_that_are_not_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shrunk.jsonl"
    lines = [
        {"prompt_ids": [1], "completion_ids": [2], "usage": {"prompt_tokens": 9000}},
        {"prompt_ids": [1, 2, 3], "completion_ids": [4], "usage": {"prompt_tokens": 2000}},
    ]
    path.write_text("".join(json.dumps({**line, "lineage": "m"}) + "\n" for line in lines))
    assert main(["check", str(path)]) == 0
    assert "7,000 prompt tokens less" in " ".join(capsys.readouterr().err.split())
    limit = ("check", str(path), "--min-fidelity", "partial")
    told = json.loads(printed(capsys, *limit, "--format", "json", status=1))
    (finding,) = told["findings"]
    assert (finding["rule"], finding["limit"], finding["value"]) == (
        "min-fidelity",
        "partial",
        "unknown",
    )
    assert finding["where"].startswith("from call 1 on: the provider counted fewer tokens")
    assert "min-fidelity unknown against partial" in printed(capsys, *limit, status=1)
    suite = ElementTree.fromstring(printed(capsys, *limit, "--format", "junit", status=1))
    assert suite[0].get("name") == "min-fidelity"
    assert "unknown against a limit of partial" in str(suite[0][0].get("message"))


@pytest.mark.parametrize(("limit", "status"), [("exact", 1), ("rebuilt", 0), ("partial", 0)])
def test_check_fails_on_contexts_less_sure_than_asked(
    limit: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    session = str(CASES / "V08" / "session.jsonl")
    assert main(["check", T1, "--view", "packed_mask", "--min-fidelity", limit]) == 0
    capsys.readouterr()
    told = printed(capsys, "check", session, "--min-fidelity", limit, status=status)
    assert told.count("min-fidelity") == status


def test_check_names_the_rollout_that_a_view_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", T3, "--view", "union_mask"]) == 2
    assert "mwviz: rollout " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["check", T3, "--min-coverage", "7"], "7 is no share, expected 0 to 1"),
        (["check", T3, "--min-coverage", "much"], "much is no share, expected 0 to 1"),
        (["check", T3, "--max-future", "-1"], "-1 is no count, expected a whole number from 0"),
        (["check", T3, "--max-stale", "x"], "x is no count, expected a whole number from 0"),
        (["check", T3, "--max-drift", "nan"], "nan is no limit, expected a number from 0"),
        (["check", T3, "--max-drift", "-1"], "-1 is no limit, expected a number from 0"),
        (["app", "--port", "99999"], "99999 is no port, expected 1 to 65535"),
        (["record", *RECORDED, "--port", "99999"], "99999 is no port, expected 0 to 65535"),
        (["record", *RECORDED, "--port", "-1"], "-1 is no port, expected 0 to 65535"),
        (["app", "--port", "0"], "0 is no port, expected 1 to 65535"),
        (["train", T3, "--clip", "3"], "3 is no pair, expected LOW,HIGH"),
        (["train", T3, "--steps", "0"], "0 is no count, expected a whole number from 1 on"),
        (["train", T3, "--batch-tokens", "x"], "x is no count, expected a whole number from 1 on"),
        (["train", T3, "--lora", "-2"], "-2 is no count, expected a whole number from 1 on"),
        (["train", T3, "--warmup", "1.5"], "1.5 is no count, expected a whole number from 0 on"),
        (["train", T3, "--watch", "-1"], "-1 is no count, expected a whole number from 0 on"),
        (["train", T3, "--seed", str(2**63)], f"{2**63} is no seed, expected 0 to"),
        (["train", T3, "--lr", "0"], "0 is out of range, expected a number above 0"),
        (["train", T3, "--most", "nan"], "nan is out of range, expected a number above 0"),
        (["train", T3, "--grad-clip", "-1"], "-1 is no limit, expected a number from 0 on"),
        (["train", T3, "--strength", "inf"], "inf is no limit, expected a number from 0 on"),
        (["train", T3, "--weight-decay", "x"], "x is no limit, expected a number from 0 on"),
        (["train", T3, "--rise", "1.1"], "1.1 is no share, expected 0 to 1"),
        (["bench", "--scale", "0"], "0 is out of range, expected a number above 0"),
        (["bench", "--scale", "-1"], "-1 is out of range, expected a number above 0"),
    ],
)
def test_an_option_of_another_kind_is_refused(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["check", T3, "--view", "gone.npz"], "--view gone.npz: no such file"),
        (["inspect", ""], "'': an empty path, expected a trace file"),
        (["app", ""], "'': no such file or folder"),
        (["app", "--model", "no/such/folder"], "no/such/folder: no such folder"),
        (["doctor", "--model", "no/such/folder"], "no/such/folder: no such folder"),
        (["bench", "-o", "gone/x.json"], "gone/x.json: cannot be written: gone is no such folder"),
        (["bench", "-o", "."], ".: is no file, expected one to write"),
        (
            ["score", "gone.jsonl", "--method", "all", "--out", "gone/x.parquet"],
            "gone/x.parquet: cannot be written: gone is no such folder",
        ),
        (
            ["simulate", "none", "gone.jsonl", "-o", "gone/x.jsonl"],
            "gone/x.jsonl: cannot be written: gone is no such folder",
        ),
        (["convert", "gone.jsonl", "-"], "-: is no name of a file to write"),
        (["record", *RECORDED[:-1], "-"], "-: is no name of a file to write"),
        (["record", *RECORDED[:-1], "x.jsonl", "--raw", "-"], "-: is no name of a file to write"),
        (["train", "gone.jsonl", "--out", T3], "cannot be written: it is a file, not a folder"),
        (["train", "gone.jsonl", "--out", f"{T3}/run"], f"{T3} is a file, not a folder"),
        (["inspect", T3, "--own", ""], "not a batch that can be read"),
        (["inspect", T3, "--model", ""], "'': no such folder"),
        (["undo", T3, "--model", ""], "'': no such folder"),
        (["doctor", "--model", ""], "'': no such folder"),
        (["inspect", T3, "--map", ""], "expected FIELD=PATH"),
        (["inspect", T3, "--own", "gone.npz"], "expected .npz, .safetensors, .parquet or JSON"),
        (["convert", T3, "out.jsonl", "--tokenizer", "x.json"], "expected both or neither"),
        (
            ["score", T3, "--method", "all", "--kernel", "nope"],
            "unknown kernel 'nope'; expected one",
        ),
        (["score", T3, "--method", "all", "--out", "x.csv"], "a name that ends in .parquet"),
        (
            ["why", T3, "--no-model", "--call", "-1", "--token", "0"],
            "no token 0 of call -1: the rollout has 4 calls",
        ),
    ],
)
def test_what_is_not_there_is_named(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert told in capsys.readouterr().err


REFUSED = (
    *("inspect FILE", "inspect T --own FILE", "inspect T --model FILE"),
    *("check FILE", "check T --view FILE", "check T --max-drift 1 --model FILE"),
    *("score FILE --method all", "score T --own FILE --model M"),
    *("score T --method all --model FILE", "score T --method all --model M --adapter FILE"),
    *("why FILE --no-model --call 1 --token 0", "leaks FILE --call 1", "undo T --model FILE"),
    *("leaks T --call 1 --view FILE", "convert FILE OUT", "simulate none FILE -o OUT"),
    *("convert T OUT --truncation 9 --tokenizer FILE", "convert T FILE", "bench -o FILE"),
    *("train FILE --out OUT", "train T --out FILE", "train --resume FILE"),
    *("train T --model M --held-out FILE --out OUT", "bench --workloads FILE"),
    *("record --upstream http://h -o FILE", "app FILE", "doctor --model FILE"),
)


@pytest.mark.parametrize("arguments", REFUSED)
def test_a_file_that_the_system_refuses_is_told_in_one_line(
    arguments: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = str(tmp_path / f"{'x' * 300}.jsonl")  # longer than any file system lets a name be
    places = {"FILE": refused, "T": T3, "M": model, "OUT": str(tmp_path / "out.jsonl")}
    assert main([places.get(word, word) for word in arguments.split()]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mwviz: {refused}")
    assert "File name too long" in line


@pytest.mark.parametrize("command", ["inspect", "check", "leaks --call 1"])
def test_a_file_that_breaks_while_it_is_read_is_named(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = "/proc/self/mem"  # its first page is never there
    name, *rest = command.split()
    assert main([name, broken, *rest]) == 2
    line = "mwviz: /proc/self/mem: Input/output error, expected a readable file\n"
    assert capsys.readouterr().err == line


def test_a_cache_that_the_system_refuses_is_told_in_one_line(
    model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cache = tmp_path / ("x" * 300)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    assert main(["score", T3, "--method", "rightmost", "--model", model]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"mwviz: {cache}")
    assert line.endswith(": File name too long, expected one that can be used")


def test_what_the_system_refuses_without_a_name_is_told_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.StringIO):
        def write(self, _text: str) -> int:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    assert main(["formats"]) == 2
    line = "mwviz: a file or folder: No space left on device, expected one that can be used\n"
    assert capsys.readouterr().err == line


def test_an_error_that_speaks_of_no_file_is_not_called_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Late(io.StringIO):
        def write(self, _text: str) -> int:
            raise TimeoutError

    monkeypatch.setattr(sys, "stdout", Late())
    with pytest.raises(TimeoutError):
        main(["formats"])


def test_places_that_cannot_be_written_are_refused_before_torch_is_loaded() -> None:
    asked = (
        ["train", T3, "--out", T3],
        ["bench", "-o", "gone/x"],
        ["score", T3, "--method", "all", "--out", "gone/x.parquet"],
    )
    script = f"import sys\nfrom mwviz.cli import main\nprint([main(a) for a in {asked}])"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\nprint('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["[2, 2, 2]", "False"]
    assert done.stderr.count("cannot be written") == len(asked)


def test_what_a_look_at_0_means_is_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "0 looks only before the first, after the last" in told


def test_doctor_names_what_it_looked_at(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "doctor")
    for name in ("Python", "torch", "transformers", "device", "SmolLM2", "cache", "Chromium"):
        assert name in text
    assert "mwviz doctor --install-model" in text


GOOD = '{"prompt_ids": [0, 1], "completion_ids": [2]}\n'
BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "not JSON": (b"hello world\nand more\n", ""),
    "binary": (bytes(range(256)) * 8, ""),
    "no calls": (b'{"role": "user", "content": "hi"}\n', "call"),
    "a list of numbers": (b"[1, 2, 3]", ":1: the value 1, which is no known format"),
    "wrong types": (b'{"prompt_ids": "abc", "completion_ids": [1]}\n', "prompt_ids"),
    "negative ids": (b'{"prompt_ids": [-3], "completion_ids": [1]}\n', "prompt_ids"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_with_nothing_usable_ends_with_2_and_a_place(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, word = BROKEN[name]
    path = tmp_path / "broken.jsonl"
    path.write_bytes(content)
    assert main(["inspect", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("mwviz: ")
    assert str(path) in error
    assert word in error
    assert "Traceback" not in error


def test_a_folder_and_a_missing_file_end_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path, tmp_path / "missing.jsonl"):
        assert main(["inspect", str(path)]) == 2
        assert str(path) in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage", ['{"prompt_ids": [0', "\0" * 512, '{"prompt_ids": [0, "x"], "completion_ids": [3]}']
)
def test_what_is_whole_is_kept_and_the_rest_is_named(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_text(GOOD + damage + "\n" + GOOD.replace("2]", "7]"))
    told = json.loads(printed(capsys, "inspect", str(path), "--json"))
    assert told["rollouts"][0]["calls"] == 2
    assert [entry["line"] for entry in told["damage"]] == [2]


def test_two_records_on_a_line_are_both_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "glued.jsonl"
    path.write_text(GOOD.strip() + GOOD)
    told = json.loads(printed(capsys, "inspect", str(path), "--json"))
    assert told["rollouts"][0]["calls"] == 2
    assert [entry["line"] for entry in told["damage"]] == [1]


def test_unknown_names_list_what_exists(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for asked in ("leftmost", "rightmost,leftmost", "rightmost,all", "rightmost,"):
        assert main(["score", T1, "--model", model, "--method", asked]) == 2
        assert "expected one of rightmost" in capsys.readouterr().err
    assert main(["check", T1, "--view", "leftmost"]) == 2
    assert "expected one of rightmost" in capsys.readouterr().err


def test_hostile_text_reaches_the_terminal_as_symbols(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "hostile.jsonl"
    record = {"rollout": "\x1b[2J\u202eevil", "prompt_ids": [1], "completion_ids": [2]}
    path.write_text(json.dumps(record))
    text = printed(capsys, "inspect", str(path))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_inspect_says_how_the_cache_was_treated_at_each_junction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[dict[str, Any]] = [
        {"prompt_ids": [0, 1, 2], "completion_ids": [3]},
        {"prompt_ids": [0, 2, 3], "completion_ids": [4], "semantics": "kv_orig"},
        {"prompt_ids": [0, 3, 4], "completion_ids": [5], "semantics": "re_prefill"},
    ]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(call | {"lineage": "main"}) + "\n" for call in calls))
    told = json.loads(printed(capsys, "inspect", str(path), "--json"))["rollouts"][0]
    assert told["semantics"] == "mixed"
    assert [junction["semantics"] for junction in told["junctions"]] == ["kv_orig", "re_prefill"]
    assert any("filled anew at others" in warning for warning in told["warnings"])
    assert told["views"]["union_mask"]["badge"]["exact_for"] == ["mixed"]
    out = str(tmp_path / "out.jsonl")
    printed(capsys, "convert", str(path), out, "--semantics", "re_prefill:1,2")
    assert json.loads(printed(capsys, "inspect", out, "--json"))["rollouts"][0]["semantics"] == (
        "re_prefill"
    )
    text = printed(capsys, "inspect", str(path))
    assert "(derived)  kv_orig" in text
    assert "(derived)  re_prefill" in text
