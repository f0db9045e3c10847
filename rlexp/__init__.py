"""Reinforcement-learning experiments you can trust."""

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlexp.app.commands.load import Records


def load(folder: str | PathLike[str]) -> "Records":
    """The experiment in `folder` (`runs/NAME`): its records and scores as plain arrays.

    Raises:
        rlexp.errors.RecordError: There is none, or its definition is damaged.
    """
    from rlexp.app.commands.load import load as read

    return read(folder)
