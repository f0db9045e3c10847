"""A console for several commands in one: what each of them shows becomes one JSON value."""

from typing import Any

from rlexp.console import Console


class Gathering(Console):
    """Keeps JSON values instead of printing them; says everything else as usual."""

    def __init__(self, *, quiet: bool) -> None:
        """With `quiet`, plans are not shown."""
        super().__init__(as_json=True, quiet=quiet)
        self.values: list[Any] = []

    def json(self, value: Any) -> None:
        """Keep a JSON value."""
        self.values.append(value)
