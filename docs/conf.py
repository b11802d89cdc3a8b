import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import make_api
import matplotlib as mpl
import style

from relatent import __version__

mpl.use("Agg")
make_api.write(HERE / "api")

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
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
html_theme = "furo"
html_title = "relatent"
html_extra_path = ["llms.txt"]
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_copy_source = False
html_show_copyright = False
exclude_patterns = ["_build", "gallery", "notebooks"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
# A copied command leaves the prompt and the output behind.
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "reset_modules": (style.apply,),
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
    "download_all_examples": False,
    "copyfile_regex": r".*\.rst",
}

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# Attributes as a list of fields: some are properties with entries of their own.
napoleon_use_ivar = True
python_maximum_signature_line_length = 100
# Arrays of every namespace are Any to a type checker; a reader wants the word.
autodoc_type_aliases = {name: name for name in ("Array", "AnyPath", "Seed")}
# Every link of ours must resolve. Types of other libraries have no page here, and the types of parameters are often
# described in words.
nitpicky = True
nitpick_ignore_regex = [(r"py:class", r".*"), (r"py:obj", r".*")]
suppress_warnings = ["ref.python", "config.cache"]
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
