"""The site: `scripts/docs` builds it. Pages are Markdown that reads as well where the repository is shown.

Its root is the repository, so that links between `docs/` and the pages beside it are looked after, too.
"""

project = "orchconverge"
author = "the orchconverge authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/index"
include_patterns = ["docs/**", "state/README.md", "AGENTS.md", "CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = [".*", "benchmarks", "commands", "orchconverge", "scripts", "tests", "docs/convergence-reports"]
myst_heading_anchors = 3
nitpicky = True
html_theme = "furo"
html_title = "orchconverge"
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
