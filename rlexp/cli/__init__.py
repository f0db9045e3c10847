"""The command line: parses words, calls a use case, exits. A command is a few lines."""

import gc
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from rlexp.cli import (
    cancel,
    compare,
    configuration,
    diff,
    doctor,
    evaluate,
    export,
    import_hyperparameters,
    import_results,
    init,
    list_runs,
    logs,
    power,
    remove,
    report,
    reproduce,
    resume,
    run,
    schemas,
    show,
    status,
    sweep,
    sync,
    verify,
    worker,
)

COLLECTED_EVERY = 100_000
"""Objects made between two garbage collections of the youngest generation."""

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
    "sweep": sweep.sweep,
    "resume": resume.resume,
    "worker": worker.worker,
    "status": status.status,
    "compare": compare.compare,
    "report": report.report,
    "power": power.power,
    "ls": list_runs.list_runs,
    "show": show.show,
    "logs": logs.logs,
    "diff": diff.diff,
    "evaluate": evaluate.evaluate,
    "reproduce": reproduce.reproduce,
    "cancel": cancel.cancel,
    "rm": remove.remove,
    "verify": verify.verify,
    "sync": sync.sync,
    "import": import_results.import_results,
    "export": export.export,
    "doctor": doctor.doctor,
    "init": init.init,
}
CONFIG_COMMANDS: dict[str, Callable[..., None]] = {
    "show": configuration.config_show,
    "list": configuration.config_list,
    "validate": configuration.config_validate,
    "schema": schemas.config_schema,
    "import": import_hyperparameters.config_import,
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
    # Importing makes several hundred thousand objects, none of which is garbage: collecting at
    # Python's default of every 700 would take a tenth of the time of a short command.
    gc.set_threshold(COLLECTED_EVERY)
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
