"""Commands whose help names the values of options in plain words."""

from typing import Any

from typer.core import TyperCommand

WORDS = {"str": "TEXT", "int": "INTEGER", "float": "NUMBER"}
"""What stands for a value of each type of Python; any other type is a path."""
OTHERWISE = "PATH"
"""The word for the values of other types."""


class WordedCommand(TyperCommand):
    """A command whose help has `--hours NUMBER` where Typer would print `--hours <float>`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with a word for the values of each option and no type for arguments."""
        for parameter in self.params:
            # Releases of Typer before 0.26 print words of their own.
            if hasattr(parameter, "display_type"):
                _use_words(parameter, ctx)
        super().format_help(ctx, formatter)


def _use_words(parameter: Any, ctx: Any) -> None:
    """Let a parameter print words for the type and the range of its values."""
    limits = _range_words(parameter.min, parameter.max)
    parameter._get_number_range_help_str = lambda: limits  # noqa: SLF001
    if parameter.param_type_name == "argument":
        # The help of an argument says what it takes.
        parameter.display_type_rich = lambda ctx: None  # noqa: ARG005
    elif parameter.metavar is None and not parameter.is_flag:
        shown = parameter.display_type(ctx).strip("<>").removesuffix(" range")
        word = shown.removeprefix("list[").removesuffix("]")
        parameter.metavar = WORDS.get(word, OTHERWISE)


def _range_words(least: float | None, most: float | None) -> str | None:
    """A range in words; None without limits."""
    if least is None:
        return None if most is None else f"at most {most}"
    return f"at least {least}" if most is None else f"{least} to {most}"
