"""The command line: parses words, calls a use case, exits. A command is a few lines."""

import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from rlexp.cli import (
    configuration,
    doctor,
    evaluate,
    exporting,
    hyperparameters,
    importing,
    init,
    reproduce,
    run,
    runs,
    schemas,
    statistics,
    sweeps,
    sync,
    worker,
)

app = typer.Typer(
    name="rlexp",
    help="Reinforcement-learning experiments you can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
config = typer.Typer(help="Show, list and validate configurations.", no_args_is_help=True)
app.add_typer(config, name="config")


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"rlexp {installed('rlexp')}")
        raise typer.Exit


COMMANDS: dict[str, Callable[..., None]] = {
    "run": run.run,
    "sweep": sweeps.sweep,
    "resume": runs.resume,
    "worker": worker.worker,
    "status": sweeps.status,
    "compare": statistics.compare,
    "report": statistics.report,
    "power": statistics.power,
    "ls": runs.list_runs,
    "show": runs.show,
    "logs": runs.logs,
    "diff": runs.diff,
    "evaluate": evaluate.evaluate,
    "reproduce": reproduce.reproduce,
    "cancel": runs.cancel,
    "rm": runs.remove,
    "verify": runs.verify,
    "sync": sync.sync,
    "import": importing.import_results,
    "export": exporting.export,
    "doctor": doctor.doctor,
    "init": init.init,
}
CONFIG_COMMANDS: dict[str, Callable[..., None]] = {
    "show": configuration.config_show,
    "list": configuration.config_list,
    "validate": configuration.config_validate,
    "schema": schemas.config_schema,
    "import": hyperparameters.config_import,
}


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    """The command, whose interruption reaches `main`: Typer makes an exit code of it."""

    @wraps(command)
    def interruptible(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt as error:
            from rlexp.errors import Interrupted

            raise Interrupted from error

    return interruptible


for name, command in COMMANDS.items():
    app.command(name)(_interruptible(command))
for name, command in CONFIG_COMMANDS.items():
    config.command(name)(_interruptible(command))


def main() -> None:
    """Run the command line; a user's mistake is one line, never a traceback.

    With `--json`, standard output carries a document of the schema `error`, too.
    """
    try:
        # Without standalone mode, Typer returns the exit code, and raises what is a mistake.
        sys.exit(app(standalone_mode=False))
    except (Exception, KeyboardInterrupt) as error:
        from rlexp.cli.failures import failure_of

        failure = failure_of(error)
        if failure is None:
            raise
    failure.show(as_json="--json" in sys.argv[1:])
    sys.exit(failure.exit_code)


if __name__ == "__main__":
    main()
