"""The help of `rlexp`: its commands in panels, by what people do with them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlexp.cli.interruption import InterruptibleGroup

if TYPE_CHECKING:
    from collections.abc import Iterator

PANELS: Mapping[str, Sequence[str]] = {
    "Train": ("run", "sweep", "plan", "extend", "resume", "cancel", "worker"),
    "Look": ("ls", "show", "status", "view", "logs", "plot", "diff"),
    "Judge": (
        "compare",
        "report",
        "best",
        "power",
        "ablate",
        "register",
        "evaluate",
        "gate",
        "propose",
    ),
    "Keep order": ("tag", "note", "mv", "rm", "gc", "sync"),
    "Exchange and check": ("import", "export", "bundle", "reproduce", "verify"),
    "Set up": ("demo", "init", "config", "recipe", "doctor", "mcp"),
}
"""The commands of each panel, in order."""
LONGEST = 1000
"""Characters of a description: more than any line, so that Click cuts none."""


class PanelGroup(InterruptibleGroup):
    """A group of commands whose help has a panel for each activity."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write every panel with the first sentence about each of its commands."""
        del ctx
        # Panels are equally indented, so that all descriptions begin in the same column.
        width = max(map(len, self.commands))
        for title, names in PANELS.items():
            with formatter.section(title):
                formatter.write_dl([*self._rows(names, width)])

    def _rows(self, names: Sequence[str], width: int) -> "Iterator[tuple[str, str]]":
        for name in names:
            yield name.ljust(width), self.commands[name].get_short_help_str(LONGEST)
