import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import relatent

ROOT = Path(__file__).parents[1]


def test_importing_loads_no_heavy_module():
    code = "import sys, relatent; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numpy", "scipy", "sklearn", "torch", "pyarrow", "safetensors", "array_api_compat", "typer", "rich"}
    assert heavy.isdisjoint(name.split(".")[0] for name in loaded)


MODULES = ["anchors", "deliver", "encode", "evaluate", "nn", "project", "spaces", "stitching", "translate"]


def test_public_modules_are_there_without_another_import():
    """In a fresh interpreter: what another test has imported must not help."""
    code = f"import relatent as rl; print(*(getattr(rl, name).__name__ for name in {MODULES}))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert shown == [f"relatent.{name}" for name in MODULES]
    assert {name for name, home in relatent._HOME.items() if home == "relatent"} == set(MODULES)


@pytest.mark.parametrize("name", relatent.__all__)
def test_every_announced_name_exists(name):
    assert getattr(relatent, name) is not None


def test_every_public_name_is_announced_and_typed():
    assert set(relatent._HOME) | {"__version__"} == set(relatent.__all__) == set(dir(relatent))
    assert sorted(relatent.__all__) == relatent.__all__
    tree = ast.parse(Path(relatent.__file__).read_text())
    for_type_checkers = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.name for line in for_type_checkers.body for alias in line.names}
    assert typed == set(relatent._HOME)


def test_a_name_has_one_home():
    for name, home in relatent._HOME.items():
        if home != "relatent":
            assert name in sys.modules[home].__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'relative_projektion'"):
        _ = relatent.relative_projektion


def test_the_version_is_that_of_the_project():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == relatent.__version__


@pytest.mark.parametrize("path", sorted((ROOT / "src").rglob("*.py")), ids=lambda p: p.stem)
def test_a_module_announces_only_what_it_has(path):
    tree = ast.parse(path.read_text())
    announced = next((ast.literal_eval(n.value) for n in tree.body if _assigns(n, "__all__")), None)
    assert announced is not None
    if path.stem == "__init__" and path.parent.name == "relatent":
        return  # its names come when they are asked for
    assert set(announced) <= {name for node in tree.body for name in _defined(node)}


def _assigns(node, name):
    return isinstance(node, ast.Assign) and any(getattr(t, "id", "") == name for t in node.targets)


def _defined(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name) for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [t.id for t in targets if isinstance(t, ast.Name)]
