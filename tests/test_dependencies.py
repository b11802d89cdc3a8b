"""What pyproject.toml declares is what src imports, no more and no less."""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
# Distributions that are imported under another name, and modules that come with a declared distribution.
NAMES = {
    "PIL": "pillow",
    "distributed": "dask",
    "faiss": "faiss-cpu",
    "haystack": "haystack-ai",
    "lance": "pylance",
    "llama_index": "llama-index-core",
    "pydantic": "llama-index-core",
    "pysqlite3": "pysqlite3-binary",
    "qdrant_edge": "qdrant-edge-py",
    "sklearn": "scikit-learn",
    "umap": "umap-learn",
}
# Extras of the repository, not of the package; pandas is used if it is installed, and no extra installs it.
TOOLS = {"dev", "docs", "stores", "browser", "experiments", "hub"}
UNDECLARED = {"pandas"}
LOADERS = {"needs", "import_module", "find_spec"}


def distributions(requirements):
    return {re.match(r"[\w-]+", one).group() for one in requirements} - {"relatent"}


def imported():
    found = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            found |= {name.split(".")[0] for name in modules(node)}
    return {NAMES.get(name, name.replace("_", "-")) for name in found - {"relatent"} - set(sys.stdlib_module_names)}


def modules(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LOADERS:
        return [one.value for one in node.args[:1] if isinstance(one, ast.Constant)]
    return []


def test_declared_dependencies_are_those_that_are_imported():
    extras = {name: one for name, one in PROJECT["optional-dependencies"].items() if name not in TOOLS}
    declared = distributions(PROJECT["dependencies"]).union(*map(distributions, extras.values()))
    # Lightning is imported by a name that is looked up when a callback is made.
    assert declared - {"lightning"} == imported() - UNDECLARED


def test_every_extra_that_a_message_names_exists():
    text = "".join(path.read_text(encoding="utf8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"needs\([^()]*?, \"([\w-]+)\",", text)) | set(re.findall(r"relatent\[([\w-]+)\]", text))
    assert named
    assert named <= set(PROJECT["optional-dependencies"])
