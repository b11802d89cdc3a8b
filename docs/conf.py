from relatent import __version__

project = "relatent"
author = "The relatent maintainers"
release = __version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "myst_parser"]
html_theme = "furo"
html_title = "relatent"
exclude_patterns = ["_build"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
nitpicky = False
suppress_warnings = ["myst.xref_missing", "ref.python"]
# Methods that scikit-learn adds for metadata routing, documented there.
autodoc_default_options = {
    "exclude-members": ", ".join(
        f"set_{method}_request"
        for method in ("fit", "partial_fit", "predict", "predict_proba", "transform", "score", "inverse_transform")
    )
}
