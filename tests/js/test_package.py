"""The npm package in js/, as it is packed and installed: golden vectors, fresh translators of every goal, bad files."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tests.exports.translators import CASES, fitted, near, nonlinear, spaces
from tests.golden.test_golden import FOLDER

import relatent as rl
from relatent._saved import Saved, read_saved, to_bytes

ROOT = Path(__file__).parents[2]
JS = ROOT / "js"
ROWS = 40

pytestmark = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="There is no Node.js: install it with npm."
)


def run(*command, cwd, given=None):
    env = {**os.environ, "RELATENT_GOLDEN": str(FOLDER), "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=cwd, input=given, capture_output=True, text=True, env=env, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An empty folder in which the packed package was installed, as its users do."""
    folder = tmp_path_factory.mktemp("app")
    run("npm", "pack", str(JS), "--silent", cwd=folder)
    (tarball,) = folder.glob("*.tgz")
    run("npm", "install", "--offline", "--no-audit", "--no-fund", "--silent", f"./{tarball.name}", cwd=folder)
    shutil.copy(Path(__file__).with_name("translate.mjs"), folder)
    shutil.copy(JS / "test" / "relatent.test.js", folder / "relatent.test.mjs")
    return folder


def test_the_package_has_what_it_needs_and_no_more(installed):
    folder = installed / "node_modules" / "relatent"
    names = {"LICENSE", "README.md", "package.json", "relatent.d.ts", "relatent.js"}
    assert {path.name for path in folder.iterdir()} == names
    about = json.loads((folder / "package.json").read_text("utf8"))
    assert about["version"] == rl.__version__
    assert "dependencies" not in about
    assert (folder / "LICENSE").read_text("utf8") == (ROOT / "LICENSE").read_text("utf8")
    assert not re.search(r"\bimport\b[^\n]*from|\brequire\(", (folder / "relatent.js").read_text("utf8"))


def test_its_own_tests_pass_in_node(installed):
    assert re.search(r"# fail 0\n", run("node", "--test", "--test-reporter=tap", "relatent.test.mjs", cwd=installed))


def test_its_own_tests_pass_in_deno(installed):
    if not shutil.which("deno"):
        pytest.skip("There is no Deno: run `make test-js`.")
    run("deno", "test", "--no-check", "--allow-read", "--allow-env", "relatent.test.mjs", cwd=installed)


def test_its_types_are_right(installed):
    """Right uses compile, and each use that is marked as an error is one."""
    if not shutil.which("tsc"):
        pytest.skip("There is no TypeScript: run `make test-js`.")
    shutil.copy(Path(__file__).with_name("types.mts"), installed)
    options = [
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--lib",
        "es2022,dom",
        "--types",
        "",
    ]
    run("tsc", *options, "types.mts", cwd=installed)


def test_fresh_translators_of_every_goal(installed, tmp_path):
    """In double precision, as in NumPy; the target is answered in single precision."""
    asked, expected = {}, {}
    for i, (name, space) in enumerate([*CASES, ("nonlinear", "digits")]):
        x, y = (rows[-ROWS:].astype(np.float64) for rows in spaces(space))
        t = nonlinear(space) if name == "nonlinear" else fitted(name, space)
        path = tmp_path / f"{i}.safetensors"
        t.save(path)
        asked[str(path)] = {"source": x.tolist(), "target": y.tolist()}
        expected[str(path)] = t.transform(x), t.transform_target(y)
    answers = json.loads(run("node", "translate.mjs", cwd=installed, given=json.dumps(asked)))
    assert answers.keys() == expected.keys()
    for path, (translated, prepared) in expected.items():
        assert "error" not in answers[path], answers[path]
        near(answers[path]["translated"], translated, rtol=1e-9)
        near(answers[path]["prepared"], prepared, rtol=1e-6)


def of_golden(name, change):
    """Return a golden file with something else in it, and a right checksum."""
    saved = read_saved(FOLDER / f"{name}.safetensors")
    change(saved)
    return to_bytes(Saved(saved.kind, saved.arrays, saved.about))


CHANGES = {
    "an array of a later version": (lambda s: s.arrays.update({"map.warp": np.ones(4)}), "does not know"),
    "a step of a later version": (lambda s: s.about["map"].update(curve={"power": 2}), "holds curve, which"),
    "another normalization": (lambda s: s.about["map"]["before"].update(name="sphere"), "normalization sphere"),
    "NaN": (lambda s: s.arrays["map.matrix"].__setitem__((0, 0), np.nan), "NaN or infinity in map.matrix"),
    "no matrix": (lambda s: s.arrays.pop("map.matrix"), "no map.matrix"),
    "a matrix of other dimensions": (
        lambda s: s.arrays.update({"map.matrix": np.ones((3, 4), np.float32)}),
        "no map.matrix of the expected shape",
    ),
    "no map": (lambda s: s.about.pop("map"), "lacks what a translator should hold"),
    "wrong dims": (lambda s: s.about.update(dims=[7, 4]), "holds maps of 6,4 and says 7,4"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_file_with_something_else_is_refused(installed, tmp_path, what, monkeypatch):
    change, message = CHANGES[what]
    path = tmp_path / "t.safetensors"
    path.write_bytes(of_golden("kernel", change))
    answer = json.loads(
        run("node", "translate.mjs", cwd=installed, given=json.dumps({str(path): {"source": [], "target": []}}))
    )
    assert re.search(f"^FileError: The file .*{message}", answer[str(path)]["error"])


def test_a_name_beyond_ascii_keeps_its_checksum(installed, tmp_path):
    def rename(saved):
        saved.about["endpoints"]["source"] = json.dumps({"dim": 6, "model": 'größe "𝔵" \x7f\u2028\n'})

    path = tmp_path / "t.safetensors"
    path.write_bytes(of_golden("kernel", rename))
    answer = json.loads(
        run("node", "translate.mjs", cwd=installed, given=json.dumps({str(path): {"source": [], "target": []}}))
    )
    assert answer[str(path)]["model"] == 'größe "𝔵" \x7f\u2028\n'
