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
    *("anchors", "decide", "encode", "engines", "evaluate", "explore", "exports", "migrate", "monitor", "nn"),
    *("project", "report", "search", "serve", "spaces", "stitching", "stores", "translate"),
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
    stub = ast.parse(Path(relatent.__file__).with_suffix(".pyi").read_text())
    typed = {alias.name for line in stub.body if isinstance(line, ast.ImportFrom) for alias in line.names}
    assert typed == set(relatent._HOME)


def test_a_name_has_one_home():
    for name, home in relatent._HOME.items():
        room = ".".join(home.split(".")[:2])
        assert room in ("relatent", "relatent._saved") or name in import_module(room).__all__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'relative_projektion'"):
        _ = relatent.relative_projektion


def test_the_version_is_that_of_the_project():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"] == relatent.__version__


# What people meet: the rooms, and the modules that the front page names. Commands and the demo are not imported.
PUBLIC = (
    "anchors",
    "decide",
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
