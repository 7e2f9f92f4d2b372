"""The policy of a page (CSP): it runs only the scripts, and takes only the style, that it was written with, by their hashes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence


def page_policy(style: str, scripts: Sequence[str] = (), further: str = "") -> str:
    """The policy of a page with this style and these scripts. further: directives besides, each with a semicolon behind it."""
    script = f"script-src {' '.join(map(_hash, scripts))}; img-src data:; " if scripts else ""
    return f"default-src 'none'; style-src {_hash(style)}; {script}{further}base-uri 'none'; form-action 'none'"


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
