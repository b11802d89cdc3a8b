import ast
import inspect
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import relatent

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "relatent"


def test_importing_loads_no_heavy_module():
    code = "import sys, relatent; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numpy", "scipy", "sklearn", "torch", "pyarrow", "safetensors", "array_api_compat", "typer", "rich"}
    assert heavy.isdisjoint(name.split(".")[0] for name in loaded)


MODULES = [
    *("anchors", "deliver", "encode", "engines", "evaluate", "explore", "exports", "nn", "project", "search", "serve"),
    *("spaces", "stitching", "stores", "translate"),
]


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


# What people meet: the rooms, and the modules that the front page names. Commands and the demo are not imported.
PUBLIC = (
    "anchors",
    "deliver",
    "encode",
    "evaluate",
    "explore",
    "exports",
    "nn",
    "project",
    "project.similarity",
    "serve",
    "spaces",
    "stitching",
    "summary",
    "translate",
)
# Rooms in which every module, and not only the front of the room, lists all that it defines.
STRICT = (
    "anchors",
    "nn",
    "project",
    "stitching",
    "translate/hub",
    "translate/asif",
    "deliver/stitch",
    "deliver/anchors",
)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_lists_what_it_has_and_has_what_it_lists(name):
    module = import_module(f"relatent.{name}")
    assert sorted(module.__all__) == sorted(set(module.__all__))
    assert all(getattr(module, listed) is not None for listed in module.__all__)
    documented = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and inspect.getmodule(value) is module and (value.__doc__ or "").strip()
    }
    assert documented <= set(module.__all__)
    if hasattr(module, "__path__"):  # what the front of a room imports, it lists
        imported = {key for key, value in vars(module).items() if _of_room(value, module) and not key.startswith("_")}
        assert imported <= set(module.__all__)


@pytest.mark.parametrize("name", ["anchors", "nn", "project", "project.similarity", "stitching"])
def test_tab_completion_shows_public_names_only(name):
    module = import_module(f"relatent.{name}")
    assert set(dir(module)) == set(module.__all__)
    assert {"np", "Any", "annotations"}.isdisjoint(dir(module))


def _of_room(value, module):
    made = inspect.isclass(value) or inspect.isfunction(value)
    return made and value.__module__.startswith(f"{module.__name__}.")


@pytest.mark.parametrize(
    "path",
    [p for p in sorted(SRC.rglob("*.py")) if p.relative_to(SRC).as_posix().startswith(STRICT)],
    ids=lambda p: p.stem,
)
def test_every_public_function_and_class_is_listed(path):
    tree = ast.parse(path.read_text())
    listed = next(ast.literal_eval(n.value) for n in tree.body if _assigns(n, "__all__"))
    defined = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    assert {name for name in defined if not name.startswith("_")} <= set(listed)


def _assigns(node, name):
    return isinstance(node, ast.Assign) and any(getattr(t, "id", "") == name for t in node.targets)


def _defined(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name) for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [t.id for t in targets if isinstance(t, ast.Name)]
