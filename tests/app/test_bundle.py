"""The workbench's modules as one: what a page loads with its first message."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mwviz_app import frontend
from mwviz_app.bundle import bundled

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


def write(folder: Path, **modules: str) -> Path:
    for name, source in modules.items():
        (folder / f"{name}.js").write_text(source)
    return folder


def ran(source: str, said: str) -> str:
    """What is printed of `given`, the exports."""
    script = f"const given = (() => {{\n{source}}})();\n{said}"
    done = subprocess.run(["node", "-"], input=script, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@needs_node
def test_modules_keep_their_names_to_themselves_and_share_one_instance(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        entry='import { up } from "./left.js";\nimport { seen, FIRST } from "./count.js";\n'
        "const name = 'entry';\n"
        "export function main() {\n  up();\n  return `${name} ${seen()} ${FIRST}`;\n}\n",
        left='import { add } from "./count.js";\nconst name = "left";\n'
        "export const up = () => add(name.length);\n",
        count="let count = 0;\nexport const [FIRST, SECOND] = [7, 8];\n"
        "export function add(by) {\n  count += by;\n}\nexport const seen = () => count;\n",
    )
    assert ran(bundled("entry", folder), "console.log(given.main())") == "entry 4 7"


@needs_node
def test_every_component_is_in_one_text_that_asks_for_no_other() -> None:
    source = bundled("parts")
    assert not re.search(r"^import\b", source, re.MULTILINE)
    for module in ("workbench", "payload", "maskpane"):
        assert source.count(f"const ${module} = (() => {{") == 1
    names = "workbench,command,inspector,metric,numbers"
    assert ran(source, "console.log(String(Object.keys(given.PARTS)))") == names


def entered(said: str) -> str:
    """What is printed of a page that loads code and starts components of it as Streamlit does."""
    texts = {"loader": frontend.LOADER, "stub": frontend.STUB}
    entries = [text.replace("export default", f"const {name} =") for name, text in texts.items()]
    helpers = """
    const load = (code) => loader({ data: new TextEncoder().encode(code) });
    const started = (name, data, parentElement = {}) =>
      stub({ name: `mwviz.${name}`, data, parentElement });
    """
    return ran("", ";\n".join(["globalThis.window = globalThis;", *entries, helpers, said]))


@needs_node
def test_a_component_that_comes_before_the_code_waits_for_it() -> None:
    said = """
    const early = [started("one", 1), started("two", 2)];
    load("return { PARTS: { one: ({ data }) => data + 1, two: ({ data }) => data + 2 } };");
    Promise.all(early).then((told) => console.log(...told, started("one", 6)));
    """
    assert entered(said) == "2 4 7"


@needs_node
def test_a_component_that_cannot_start_leaves_all_others_alone() -> None:
    said = """
    const early = [started("one", 1), started("two", 2)];
    load("return { PARTS: { one: () => { throw Error('no') }, two: ({ data }) => data + 2 } };");
    Promise.allSettled(early).then((told) => console.log(told[0].reason.message, told[1].value));
    """
    assert entered(said) == "no 4"


@needs_node
def test_other_code_replaces_the_earlier_code_and_ends_what_that_had_mounted() -> None:
    said = """
    const code = (name) => `return { PARTS: { one: ({ data }) => {
      log.push("${name}" + data);
      return () => log.push("end ${name}");
    } } };`;
    const place = {};
    globalThis.log = [];
    for (const [data, name] of ["a", "a", "b", "b"].entries()) {
      load(code(name));
      started("one", data, place);
    }
    console.log(log.join(", "));
    """
    assert entered(said) == "a0, a1, end a, b2, b3"


def test_what_travels_with_every_message_is_short() -> None:
    assert len(frontend.STUB) <= 130


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (
            {"a": 'import { b } from "./b.js";\n', "b": 'import { a } from "./a.js";\n'},
            "a -> b -> a",
        ),
        ({"a": 'import * as b from "./b.js";\n'}, r"a\.js: cannot be bundled: 'import \* as b"),
        ({"a": "const b = 1;\nexport { b };\n"}, r"a\.js: cannot be bundled: 'export \{ b \}"),
        ({"a": "export default 1;\n"}, r"a\.js: cannot be bundled: 'export default 1"),
    ],
)
def test_what_cannot_be_bundled_is_named(
    tmp_path: Path, modules: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        bundled("a", write(tmp_path, **modules))
