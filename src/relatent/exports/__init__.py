"""EXPORT: a fitted translator in the form of another library, one module per form, each with its own extra.

:func:`export` writes files: ONNX, a sentence-transformers folder, a FAISS index, a folder for a model hub, a folder for
NumPy alone, SQL for PostgreSQL, DuckDB or SQLite, a map of translated items for Embedding Atlas. What wraps an embedder
of a framework is imported from its module: ``relatent.exports.langchain``, ``llama_index``, ``haystack`` and ``mteb``.
"""

from relatent.exports.formats import FORMATS, Exported, export, steps_of
from relatent.steps import Step

__all__ = ["FORMATS", "Exported", "Step", "export", "steps_of"]
