"""The Typer application: all commands, or the one that was typed.

Importing and registering the other commands would take a tenth of the time of a short command.
"""

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Annotated

import typer

from rlexp.cli.command_panels import PanelGroup
from rlexp.cli.value_words import WordedCommand

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
