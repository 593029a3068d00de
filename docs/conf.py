"""Sphinx configuration."""

from kernelwright import __version__

project = "kernelwright"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
exclude_patterns = ["_build"]
autodoc_typehints = "description"
