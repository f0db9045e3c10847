"""Settings of Sphinx for the documentation site, which `make docs` builds."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

project = PROJECT["name"]
version = release = PROJECT["version"]
html_title = f"{project} {version}"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
html_show_copyright = False
# Readers copy commands, not the prompt before them.
copybutton_prompt_text = "$ "
copybutton_exclude = ".linenos, .gp, .go"
# The names of options begin with two hyphens, which stay two hyphens.
smartquotes = False
myst_heading_anchors = 4
exclude_patterns = ["**/*.ipynb"]
nitpicky = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_use_legacy_class_based = False
napoleon_numpy_docstring = False
