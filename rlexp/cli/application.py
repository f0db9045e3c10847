"""The Typer application: all commands, or the one that was typed, their help, and how Ctrl-C ends them.

Importing and registering the other commands would take a tenth of the time of a short command.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from rlexp.errors import Interrupted
from rlexp.interrupts import was_interrupted

COMMANDS = {
    "run": "train.run:run",
    "sweep": "train.sweep:sweep",
    "plan": "train.plan:plan",
    "best": "judge.best:best",
    "resume": "train.resume:resume",
    "extend": "train.extend:extend",
    "worker": "train.worker:worker",
    "status": "look.status:status",
    "compare": "judge.compare:compare",
    "report": "judge.report:report",
    "view": "look.view:view",
    "plot": "look.plot:plot",
    "power": "judge.power:power",
    "ls": "look.list_runs:list_runs",
    "show": "look.show:show",
    "logs": "look.logs:logs",
    "diff": "look.diff:diff",
    "register": "judge.register:register",
    "evaluate": "judge.evaluate:evaluate",
    "gate": "judge.gate:gate",
    "propose": "judge.propose:propose",
    "ablate": "judge.ablate:ablate",
    "reproduce": "exchange.reproduce:reproduce",
    "bundle": "exchange.bundle:bundle",
    "cancel": "train.cancel:cancel",
    "rm": "order.remove:remove",
    "gc": "order.garbage:collect",
    "mv": "order.move:move",
    "tag": "order.tag:tag",
    "note": "order.note:note",
    "verify": "exchange.verify:verify",
    "sync": "order.sync:sync",
    "import": "exchange.import_results:import_results",
    "export": "exchange.export:export",
    "doctor": "setup.doctor:doctor",
    "init": "setup.init:init",
    "recipe": "setup.recipe:recipe",
    "mcp": "setup.mcp:serve",
    "demo": "setup.demo:demo",
}
"""The function of each command, as a module of `rlexp.cli` and a name."""
CONFIG_COMMANDS = {
    "show": "setup.configuration:config_show",
    "list": "setup.configuration:config_list",
    "search": "setup.configuration:config_search",
    "validate": "setup.configuration:config_validate",
    "schema": "setup.schemas:config_schema",
    "import": "setup.import_hyperparameters:config_import",
}
"""The function of each command of `rlexp config`."""
EPILOGS = {"run": "train.run:words_help"}
"""The function that writes the end of a command's help."""
WATCHING = {"logs", "status"}
"""Commands that change nothing, and that Ctrl-C ends when the user has seen enough."""
CONTINUED = {"demo", "extend", "gate", "propose", "resume", "run", "sweep"}
"""Commands whose repetition continues where an interrupted one ended."""
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
WORDS = {"str": "TEXT", "int": "INTEGER", "float": "NUMBER"}
"""What stands for a value of each type of Python; any other type is a path."""
OTHERWISE = "PATH"
"""The word for the values of other types."""


def make_app(
    names: Iterable[str] = COMMANDS, config_names: Iterable[str] = CONFIG_COMMANDS
) -> typer.Typer:
    """The application with these commands, and with these commands of `rlexp config`."""
    app = typer.Typer(
        name="rlexp",
        help="Reinforcement-learning experiments you can trust.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        cls=PanelGroup,
    )
    config = typer.Typer(help="Show, list and validate configurations.", no_args_is_help=True)
    app.add_typer(config, name="config")
    app.callback(invoke_without_command=True)(_version)
    for name in names:
        epilog = _function(EPILOGS[name])() if name in EPILOGS else None
        app.command(name, cls=WordedCommand, epilog=epilog)(_function(COMMANDS[name]))
    for name in config_names:
        config.command(name, cls=WordedCommand)(_function(CONFIG_COMMANDS[name]))
    return app


def _function(reference: str) -> Callable[..., str | None]:
    module, _, name = reference.partition(":")
    function: Callable[..., str | None] = getattr(import_module(f"rlexp.cli.{module}"), name)
    return function


def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"rlexp {installed('rlexp')}")
        raise typer.Exit


class InterruptibleGroup(TyperGroup):
    """A group of commands that raise `Interrupted` on Ctrl-C.

    Typer would turn a KeyboardInterrupt into an exit code, without a line and without a document.
    """

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Parse the command line."""
        try:
            return super().make_context(*arguments, **settings)
        except KeyboardInterrupt as error:
            raise Interrupted(_message(None)) from error

    def invoke(self, ctx: Any) -> Any:
        """Execute the command of a parsed command line."""
        try:
            return super().invoke(ctx)
        # Typer ends a command by this exception, too.
        except typer.Exit:
            raise
        except (Exception, KeyboardInterrupt) as error:
            # A library may have turned the interrupt into an error, which is no mistake of the user.
            if isinstance(error, KeyboardInterrupt) or was_interrupted():
                raise Interrupted(_message(ctx.invoked_subcommand)) from error
            raise


def _message(command: str | None) -> str:
    """What a command says; None for a command line that is not parsed yet."""
    if command in WATCHING:
        return ""
    return "interrupted; the same command continues" if command in CONTINUED else "interrupted"


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

    def _rows(self, names: Sequence[str], width: int) -> Iterator[tuple[str, str]]:
        for name in names:
            yield name.ljust(width), self.commands[name].get_short_help_str(LONGEST)


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
