import sys
from pathlib import Path

from relatent import __version__

sys.path.insert(0, str(Path(__file__).parent))
import make_api

make_api.write(Path(__file__).parent / "api")

project = "relatent"
author = "The relatent maintainers"
release = __version__
# The fourth carries MathJax, so that formulas render without a network.
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "myst_parser",
]
html_theme = "furo"
html_title = "relatent"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# Attributes as a list of fields: some are properties with entries of their own.
napoleon_use_ivar = True
python_maximum_signature_line_length = 100
# Arrays of every namespace are Any to a type checker; a reader wants the word.
autodoc_type_aliases = {name: name for name in ("Array", "AnyPath", "Seed")}
nitpicky = False
suppress_warnings = ["myst.xref_missing", "ref.python"]
# Methods that scikit-learn adds for metadata routing, documented there.
autodoc_default_options = {
    "exclude-members": ", ".join(
        f"set_{method}_request"
        for method in ("fit", "partial_fit", "predict", "predict_proba", "transform", "score", "inverse_transform")
    )
}


def close_lists(app, what, name, obj, options, lines):
    """Give references and examples headings: napoleon would read them as parts of the list of attributes above them."""
    out, shown = [], False
    for line in lines:
        if line.startswith("References: "):
            out += ["References", "----------", line.removeprefix("References: ")]
        elif line.startswith(">>> ") and not shown:
            out, shown = [*out, "Examples", "--------", line], True
        else:
            out.append(line)
    lines[:] = out


def setup(app):
    app.connect("autodoc-process-docstring", close_lists, priority=400)  # before napoleon, which has 500
