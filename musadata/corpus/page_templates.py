"""The templates of the pages about a corpus; in HTML, what comes from data is escaped."""

from pathlib import Path

import jinja2

PAGES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent),
    autoescape=jinja2.select_autoescape(),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    extensions=["jinja2.ext.do"],
)
