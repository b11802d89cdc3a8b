"""What holds of every public name: where it is listed, what it loads, and the contract of its parameters."""

import ast
import inspect
import json
import pkgutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import relatent as rl

ROOT = Path(__file__).parents[1]
ROOMS = [
    *("anchors", "decide", "encode", "engines", "evaluate", "explore", "exports", "migrate", "monitor", "nn"),
    *("project", "report", "search", "serve", "spaces", "stitching", "stores", "translate"),
]
MODULES = [*ROOMS, "project.similarity", "summary"]


def in_fresh_interpreter(code):
    """Run code that prints words, and return them: what another test has imported must not help."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def public(module):
    return import_module(f"relatent.{module}")


# Listed once


def test_public_modules_are_there_without_another_import():
    shown = in_fresh_interpreter(f"import relatent as rl; print(*(getattr(rl, name).__name__ for name in {ROOMS}))")
    assert shown == [f"relatent.{name}" for name in ROOMS]
    assert {name for name in rl.__all__ if inspect.ismodule(getattr(rl, name))} == set(ROOMS)


def test_about_twenty_five_functions_and_classes_are_at_the_top():
    assert 20 <= len(set(rl.__all__) - set(ROOMS)) <= 27


def test_every_public_name_is_listed_and_typed():
    assert rl.__all__ == sorted(set(rl.__all__)) == dir(rl)
    block = next(node for node in ast.parse(Path(rl.__file__).read_text()).body if isinstance(node, ast.If))
    typed = {alias.name for line in block.body for alias in line.names}
    assert typed == set(rl.__all__)


@pytest.mark.parametrize("name", sorted(set(rl.__all__) - set(ROOMS) - {"load"}))
def test_a_name_at_the_top_is_that_of_its_room(name):
    room = ".".join(getattr(rl, name).__module__.split(".")[:2])
    assert getattr(import_module(room), name) is getattr(rl, name)
    assert name in import_module(room).__all__


@pytest.mark.parametrize("name", sorted({*MODULES} - {"engines", "stores"}))  # stores import what they register
def test_a_public_module_lists_what_it_has_and_has_what_it_lists(name):
    module = public(name)
    assert sorted(module.__all__) == sorted(set(module.__all__))
    assert all(getattr(module, listed) is not None for listed in module.__all__)
    documented = {
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and inspect.getmodule(value) is module and (value.__doc__ or "").strip()
    }
    assert documented <= set(module.__all__)
    if hasattr(module, "__path__"):  # what the front of a room imports of its modules, it lists
        imported = {key for key, value in vars(module).items() if _of_room(value, module) and not key.startswith("_")}
        assert imported <= set(module.__all__)


@pytest.mark.parametrize("room", [name for name in ROOMS if hasattr(public(name), "__path__")])
def test_no_public_name_is_that_of_a_module(room):
    """Once imported, the module would take its place."""
    package = public(room)
    modules = {found.name for found in pkgutil.iter_modules(package.__path__)}
    shadowed = {name for name in modules & set(package.__all__) if not inspect.ismodule(getattr(package, name))}
    assert not shadowed


@pytest.mark.parametrize(
    "name", ["anchors", "decide", "evaluate", "monitor", "nn", "project", "project.similarity", "search", "stitching"]
)
def test_tab_completion_shows_public_names_only(name):
    assert set(dir(public(name))) == set(public(name).__all__)
    assert {"np", "Any", "annotations"}.isdisjoint(dir(public(name)))


@pytest.mark.parametrize(("module", "name"), [("relatent", "relative_projektion"), ("relatent.evaluate", "ckaa")])
def test_an_unknown_name_is_an_attribute_error(module, name):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute '{name}'"):
        getattr(import_module(module), name)


def test_there_is_one_version():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"] == ["version"]
    assert json.loads((ROOT / "js" / "package.json").read_text())["version"] == rl.__version__
    assert f"## [{rl.__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf8")


# Loaded at first use

HEAVY = ("pyarrow", "sklearn", "pandas", "scipy.stats", "torch", "rich", "relatent.spaces.io", "relatent.spaces.space")
PAIR = "import numpy as np; x, y = np.random.default_rng(0).normal(size=(2, 40, 5)); import relatent as rl; "
MEASURES = sorted(name for name in rl.evaluate.__all__ if inspect.isfunction(getattr(rl.evaluate, name)))
ARGUMENTS = {
    "arr": "x, y, y, y",
    "bootstrap": "x",
    "compare_all": "[x, y]",
    "concentricity": "x",
    "functional_similarity": "x, y, size=10",
    "gain_recovered": "x[:, 0], x[:, 1], x[:, 2]",
    "jensen_shannon": "np.eye(2), np.eye(2)",
    "magnitude": "x",
    "minibatch_cka": "[(x, y)]",
    "nearest": "x, y",
    "norms": "x",
    "reciprocal_ranks": "x, np.zeros(40, dtype=int)",
    "relative_similarity": "x, y, np.arange(9)",
    "rescale": "x, 2.0",
    "scale_curve": "lambda x: x[:, 0] > 0, x, np.zeros(40), [1.0]",
    "task_kept": "x[:, 0], x[:, 1], x[:, 2]",
    "uniformity": "x",
}
# Those that take no arrays: a torch model, and spaces of several vectors per item.
NO_ARRAYS = ("maxsim", "rescaled")


def loaded(code):
    return in_fresh_interpreter(f"{code}; import sys; print(*sys.modules)")


def heavy(modules):
    return [name for name in modules if name.startswith(tuple(f"{one}." for one in HEAVY)) or name in HEAVY]


def test_importing_loads_no_heavy_module():
    packages = {name.split(".")[0] for name in loaded("import relatent")}
    every = {"numpy", "scipy", "sklearn", "torch", "pyarrow", "safetensors", "array_api_compat", "typer", "rich"}
    assert every.isdisjoint(packages)


@pytest.mark.parametrize("room", ["evaluate", "decide", "monitor", "search"])
def test_importing_a_room_loads_none_of_its_modules(room):
    assert not [name for name in loaded(f"import relatent.{room}") if name.startswith(f"relatent.{room}.")]


def test_the_relative_projection_of_arrays_loads_little():
    modules = loaded(f"{PAIR} rl.relative_projection(x, y)")
    assert heavy(modules) == []
    assert {"scipy", "numpy.f2py"}.isdisjoint(modules)
    assert len([name for name in modules if name.startswith("relatent")]) <= 15


def test_every_measure_of_arrays_loads_little():
    calls = [f"rl.evaluate.{name}({ARGUMENTS.get(name, 'x, y')})" for name in MEASURES if name not in NO_ARRAYS]
    modules = loaded(f"{PAIR} {'; '.join(calls)}; rl.compare(x, y)")
    assert heavy(modules) == []
    assert len([name for name in modules if name.startswith("relatent")]) <= 34


def test_describing_a_saved_translator_loads_no_estimator(tmp_path, rng):
    x = rng.normal(size=(40, 5))
    rl.Translator(map="orthogonal").fit(x, -x).save(tmp_path / "t.safetensors")
    modules = loaded(f"from relatent.translate import describe; describe({str(tmp_path / 't.safetensors')!r})")
    assert {"sklearn", "pandas", "scipy", "relatent.spaces.io"}.isdisjoint(modules)


@pytest.mark.parametrize(("command", "missing"), [("serve", "uvicorn"), ("explore", "starlette")])
def test_what_is_not_installed_is_reported_before_anything_is_loaded(command, missing):
    shown = in_fresh_interpreter(
        f"import sys; sys.modules[{missing!r}] = None; from relatent.cli import app; "
        f"code = app([{command!r}, 'a.safetensors'], standalone_mode=False); print(code, 'numpy' in sys.modules)"
    )
    assert shown == ["1", "False"]


# The contract of parameters and results

# Public names that two rooms share, and why. All others differ.
ALIKE = {
    "RelativeProjection": "the torch layer and the estimator are one concept in the two libraries it is used with",
    "make_app": "an ASGI application of the service and of the page, never imported together",
    "run": "as make_app",
}
# Functions that write and have no `overwrite`, and why.
NO_OVERWRITE = {
    "StitchingMatrix.heatmap": "a picture",
}
# Functions that take a translator, but not first, and why.
TRANSLATOR_LATER = {
    "stitch": "encoder, translator, decoder: in the order in which data passes them",
    "stitch_at": "as stitch",
}
READERS = ("read_", "load", "open_", "check_", "describe", "inspect_")
SPACES = {"x", "y", "space", "spaces", "source", "target", "old", "new", "batch", "truth", "kept", "fresh"}


def functions():
    """Return the public functions, and the public methods of public classes, by their names."""
    for room in MODULES:
        for name in public(room).__all__:
            value = getattr(public(room), name)
            if inspect.isfunction(value):
                yield name, value
            elif inspect.isclass(value) and value.__module__.startswith("relatent"):
                for key, method in vars(value).items():
                    if inspect.isfunction(method) and not key.startswith("_"):
                        yield f"{name}.{key}", method


def parameters(function):
    return inspect.signature(function).parameters


def test_no_two_rooms_have_names_alike():
    homes = defaultdict(dict)
    for room in MODULES:
        for name in public(room).__all__:
            homes[name][id(getattr(public(room), name))] = room
    assert {name for name, rooms in homes.items() if len(rooms) > 1} == set(ALIKE)


def test_writers_do_not_overwrite_unless_told():
    wrong = set()
    for name, function in functions():
        option = parameters(function).get("overwrite")
        if option is None:
            writes = {"path", "out"} & set(parameters(function)) and not name.split(".")[-1].startswith(READERS)
            wrong |= {name} if writes else set()
        elif option.kind is not inspect.Parameter.KEYWORD_ONLY or option.default is not False:
            wrong.add(name)
    assert wrong == set(NO_OVERWRITE)


def test_progress_is_shown_on_a_terminal_unless_told():
    wrong = []
    for name, function in functions():
        given = parameters(function).get("progress")
        if given is not None:
            right = (given.default, given.annotation) == (None, "bool | None")
            wrong += [name] * (not right or given.kind is not inspect.Parameter.KEYWORD_ONLY)
    assert wrong == []


def test_parameters_come_in_order():
    """A translator first, then spaces, then the path that is written, then options."""
    translators, paths = set(), set()
    for name, function in functions():
        every = parameters(function)
        given = [key for key, p in every.items() if p.kind is not inspect.Parameter.KEYWORD_ONLY and key != "self"]
        if "translator" in given[1:]:
            translators.add(name)
        if "path" in given and "overwrite" in every and SPACES & set(given[given.index("path") :]):
            paths.add(name)
    assert translators == set(TRANSLATOR_LATER)
    assert paths == set()


def returns_float(name):
    return inspect.signature(getattr(rl.evaluate, name)).return_annotation == "float"


def measured(name, x, y):
    known = {"measure": getattr(rl.evaluate, name), "x": x, "y": y, "np": np}
    return eval(f"measure({ARGUMENTS.get(name, 'x, y')})", known)


@pytest.mark.parametrize("name", list(filter(returns_float, MEASURES)))
def test_a_measure_is_a_float(xp, rng, name):
    assert type(measured(name, *(xp(rng.normal(size=(40, 5))) for _ in range(2)))) is float


@pytest.mark.parametrize("name", [name for name in MEASURES if "Differentiable" in getattr(rl.evaluate, name).__doc__])
def test_a_measure_that_torch_tracks_is_a_tensor(rng, name):
    torch = pytest.importorskip("torch")
    x, y = (torch.tensor(rng.normal(size=(40, 5)), requires_grad=True) for _ in range(2))
    value = measured(name, x, y)
    value.backward()
    assert value.shape == ()
    assert float(x.grad.abs().sum()) > 0


def _of_room(value, module):
    made = inspect.isclass(value) or inspect.isfunction(value)
    return made and value.__module__.startswith(f"{module.__name__}.")
