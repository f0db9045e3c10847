"""The command line: parses words, calls a use case, exits. A command is a few lines."""

import errno
import gc
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from rlexp.cli import (
    cancel,
    compare,
    diff,
    export,
    import_hyperparameters,
    import_results,
    list_runs,
    logs,
    mirrors,
    power,
    remove,
    report,
    resume,
    run,
    runs,
    show,
    status,
    study,
    sweep,
    verify,
)
from rlexp.cli.options import console_for

COLLECTED_EVERY = 100_000
"""Objects made between two garbage collections of the youngest generation."""
UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
"""Error numbers that a user can act on without reading a traceback."""

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
    "worker": runs.worker,
    "status": status.status,
    "compare": compare.compare,
    "report": report.report,
    "power": power.power,
    "ls": list_runs.list_runs,
    "show": show.show,
    "logs": logs.logs,
    "diff": diff.diff,
    "evaluate": runs.evaluate,
    "reproduce": runs.reproduce,
    "cancel": cancel.cancel,
    "rm": remove.remove,
    "verify": verify.verify,
    "sync": mirrors.sync,
    "import": import_results.import_results,
    "export": export.export,
    "doctor": study.doctor,
    "init": study.init,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
config.command("show")(study.config_show)
config.command("list")(study.config_list)
config.command("validate")(study.config_validate)
config.command("import")(import_hyperparameters.config_import)


def main() -> None:
    """Run the command line; a user's mistake is one line, never a traceback."""
    from rlexp.errors import RlexpError

    # Importing makes several hundred thousand objects, none of which is garbage: collecting at
    # Python's default of every 700 would take a tenth of the time of a short command.
    gc.set_threshold(COLLECTED_EVERY)
    try:
        app()
    except RlexpError as error:
        console_for().error(str(error))
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        console_for().error(f"{error}; free space or choose another folder with RLEXP_RUNS")
        sys.exit(2)


if __name__ == "__main__":
    main()
