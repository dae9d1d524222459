"""Shared frame of the HTML pages: one self-contained file without network access.

Every text is escaped by the template engine. In addition, the page's own content security policy forbids all requests
and all scripts except the page's own, so that text of a page or a model stays text.
"""

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cua.trajectory.disk import translate_os_errors
from cua.trajectory.images import write_atomically

if TYPE_CHECKING:
    from jinja2 import Template

_OURS = "cua.trajectory.report"
_STYLE = "report.css"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTemplate:
    """Self-contained page: its template extends `shell.html`, its style sheet follows the shared one.

    Attributes:
        package: Package of its files.
        template: File name of the template, which fills the blocks `title` and `body`.
        script: File name of its script.
        style: File name of its own style sheet; "" without one.
        has_files: True if it may show images and clips next to it.
        shared: Package of script and style sheet; "" for `package`.
    """

    package: str
    template: str
    script: str
    style: str = ""
    has_files: bool = False
    shared: str = ""

    def render(self, **values: Any) -> str:
        """Render the page, with `values` for its template."""
        shared = self.shared or self.package
        style = _part(_OURS, _STYLE) + (_part(shared, self.style) if self.style else "")
        script = _part(shared, self.script)
        policy = inline_policy(style, script, has_files=self.has_files)
        return _engine(self.package, self.template).render(**values, style=style, script=script, policy=policy)

    def write(self, path: Path, **values: Any) -> Path:
        """Write the page atomically."""
        page = self.render(**values)
        with translate_os_errors("write", path):
            write_atomically(path, page.encode("utf-8", "replace"))
        return path


def inline_policy(style: str, script: str, *, has_files: bool = False) -> str:
    """Return the content security policy of a page that may use only one inline style and one inline script."""
    media = "img-src data: 'self' file:; media-src 'self' file:" if has_files else "img-src data:"
    return (
        f"default-src 'none'; {media}; base-uri 'none'; form-action 'none'; "
        f"style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    )


def _hash(text: str) -> str:
    """Return the source hash of an inline style or script in a content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache(maxsize=64)
def _part(package: str, name: str) -> str:
    return resources.files(package).joinpath(name).read_text(encoding="utf-8")


@lru_cache(maxsize=16)
def _engine(package: str, template: str) -> "Template":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    def load(name: str) -> str:
        return _part(_OURS if name == "shell.html" else package, name)

    engine = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=FunctionLoader(load)
    )
    return engine.get_template(template)
