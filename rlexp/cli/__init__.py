"""The command line: parses words, calls a use case, exits. A command is a few lines."""

import errno
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from rlexp.cli import (
    configuration,
    exporting,
    hyperparameters,
    importing,
    mirrors,
    run,
    runs,
    schemas,
    statistics,
    study,
    sweeps,
)
from rlexp.cli.options import console_for

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
    "sweep": sweeps.sweep,
    "resume": runs.resume,
    "worker": runs.worker,
    "status": sweeps.status,
    "compare": statistics.compare,
    "report": statistics.report,
    "power": statistics.power,
    "ls": runs.list_runs,
    "show": runs.show,
    "logs": runs.logs,
    "diff": runs.diff,
    "evaluate": runs.evaluate,
    "reproduce": runs.reproduce,
    "cancel": runs.cancel,
    "rm": runs.remove,
    "verify": runs.verify,
    "sync": mirrors.sync,
    "import": importing.import_results,
    "export": exporting.export,
    "doctor": study.doctor,
    "init": study.init,
}
for name, command in COMMANDS.items():
    app.command(name)(command)
config.command("show")(configuration.config_show)
config.command("list")(configuration.config_list)
config.command("validate")(configuration.config_validate)
config.command("schema")(schemas.config_schema)
config.command("import")(hyperparameters.config_import)


def main() -> None:
    """Run the command line; a user's mistake is one line, never a traceback."""
    from rlexp.errors import RlexpError

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
