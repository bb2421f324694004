"""How help texts are laid out: prose folded to the terminal, examples left as they are."""

from __future__ import annotations

import argparse


class HelpFormatter(argparse.HelpFormatter):
    """Folds descriptions; keeps each line that starts with `example:` to itself."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts: list[str] = []
        prose: list[str] = []
        for line in [*text.splitlines(), "example:"]:
            if not line.startswith("example:"):
                prose.append(line)
                continue
            if prose:
                parts.append(super()._fill_text(" ".join(prose), width, indent))
                prose = []
            parts.append(indent + line)
        return "\n".join(parts[:-1])
