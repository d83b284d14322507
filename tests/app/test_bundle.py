"""The workbench's modules as one: what a page loads with its first message."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mwviz_app.bundle import FOLDER, bundled

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")


def write(folder: Path, **modules: str) -> Path:
    for name, source in modules.items():
        (folder / f"{name}.js").write_text(source)
    return folder


def ran(source: str, said: str) -> str:
    """What a module prints whose default export is called `main`."""
    script = source.replace("export default ", "const main = ") + said
    command = ["node", "--input-type=module", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@needs_node
def test_modules_keep_their_names_to_themselves_and_share_one_instance(tmp_path: Path) -> None:
    folder = write(
        tmp_path,
        entry='import { up } from "./left.js";\nimport { seen, FIRST } from "./count.js";\n'
        "const name = 'entry';\n"
        "export default function () {\n  up();\n  return `${name} ${seen()} ${FIRST}`;\n}\n",
        left='import { add } from "./count.js";\nconst name = "left";\n'
        "export const up = () => add(name.length);\n",
        count="let count = 0;\nexport const [FIRST, SECOND] = [7, 8];\n"
        "export function add(by) {\n  count += by;\n}\nexport const seen = () => count;\n",
    )
    assert ran(bundled("entry", folder), "console.log(main())") == "entry 4 7"


@needs_node
def test_the_workbench_is_one_module_that_asks_for_no_other() -> None:
    source = bundled("index")
    assert "import " not in source.split("export default")[0].replace("// import", "")
    for module in ("workbench", "payload", "maskpane"):
        assert source.count(f"const ${module} = (() => {{") == 1
    assert ran(source, "console.log(typeof main)") == "function"
    assert (FOLDER / "index.js").exists()


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (
            {"a": 'import { b } from "./b.js";\n', "b": 'import { a } from "./a.js";\n'},
            "a -> b -> a",
        ),
        ({"a": 'import * as b from "./b.js";\n'}, r"a\.js: cannot be bundled: 'import \* as b"),
        ({"a": "const b = 1;\nexport { b };\n"}, r"a\.js: cannot be bundled: 'export \{ b \}"),
    ],
)
def test_what_cannot_be_bundled_is_named(
    tmp_path: Path, modules: dict[str, str], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        bundled("a", write(tmp_path, **modules))
