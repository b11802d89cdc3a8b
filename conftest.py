"""What pytest leaves out: modules of libraries that are not installed. `make test-exports` runs their doctests."""

from importlib.util import find_spec

LIBRARIES = {"haystack": "haystack", "langchain": "langchain_core", "llama_index": "llama_index"}

collect_ignore = [
    f"src/relatent/exports/{module}.py" for module, library in LIBRARIES.items() if find_spec(library) is None
]
