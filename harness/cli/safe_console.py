"""A console on which no printed text can control the terminal; colours and lines of ours still do."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from fencepost.harness.secrets import mask
from fencepost.harness.system.ending_signals import UNREAD
from fencepost.harness.visible_text import visible


class SafeConsole(Console):
    """Everything that is printed, in whatever renderable, goes through `render` as segments of text."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=visible(segment.text))

    def on_broken_pipe(self) -> NoReturn:
        """Leave, since nobody reads the output any more. The exit code of rich itself, 1, would be a verdict."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())
        raise SystemExit(UNREAD)

    def render_str(self, text: str, **options: Any) -> Any:
        """Mask and escape a text before its width is measured; here texts are whole, so that secrets are recognised in them."""
        return super().render_str(visible(mask(text)), **options)
