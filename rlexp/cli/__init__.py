"""The command line: each command parses its arguments, calls one use case and shows the result."""

import gc
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from rlexp.cli.command_panels import PanelGroup
from rlexp.cli.completion import (
    asks_for_bash,
    asks_for_script,
    complete_at_first_tab_in_zsh,
    complete_in_bash,
)
from rlexp.cli.exchange import export, import_results, reproduce, verify
from rlexp.cli.judge import best, compare, evaluate, power, register, report
from rlexp.cli.look import diff, list_runs, logs, plot, show, status, view
from rlexp.cli.missing_characters import spell_on_standard_output
from rlexp.cli.order import garbage, move, note, remove, sync, tag
from rlexp.cli.setup import configuration, demo, doctor, import_hyperparameters, init, schemas
from rlexp.cli.train import cancel, extend, resume, run, sweep, worker

GC_THRESHOLD = 100_000
"""Allocated objects between two garbage collections of the youngest generation."""

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
    "best": best.best,
    "resume": resume.resume,
    "extend": extend.extend,
    "worker": worker.worker,
    "status": status.status,
    "compare": compare.compare,
    "report": report.report,
    "view": view.view,
    "plot": plot.plot,
    "power": power.power,
    "register": register.register,
    "ls": list_runs.list_runs,
    "show": show.show,
    "logs": logs.logs,
    "diff": diff.diff,
    "evaluate": evaluate.evaluate,
    "reproduce": reproduce.reproduce,
    "cancel": cancel.cancel,
    "rm": remove.remove,
    "gc": garbage.collect,
    "mv": move.move,
    "tag": tag.tag,
    "note": note.note,
    "verify": verify.verify,
    "sync": sync.sync,
    "import": import_results.import_results,
    "export": export.export,
    "doctor": doctor.doctor,
    "init": init.init,
    "demo": demo.demo,
}
CONFIG_COMMANDS: dict[str, Callable[..., None]] = {
    "show": configuration.config_show,
    "list": configuration.config_list,
    "search": configuration.config_search,
    "validate": configuration.config_validate,
    "schema": schemas.config_schema,
    "import": import_hyperparameters.config_import,
}


EPILOGS = {"run": run.words_help()}
for name, command in COMMANDS.items():
    app.command(name, epilog=EPILOGS.get(name))(command)
for name, command in CONFIG_COMMANDS.items():
    config.command(name)(command)


def main() -> None:
    """Run the command line and exit.

    A user's mistake prints one line on standard error instead of a traceback. With `--json`,
    standard output also gets a document of the schema `error`.
    """
    # Imports allocate several hundred thousand objects, none of which is garbage. Python's default
    # threshold of 700 would spend a tenth of a short command's time on collections.
    gc.set_threshold(GC_THRESHOLD)
    # JSON must stay as it is: a spelling would change its strings.
    if "--json" not in sys.argv[1:]:
        spell_on_standard_output()
    if asks_for_bash():
        complete_in_bash(app)
        sys.exit(0)
    if asks_for_script(sys.argv[1:]):
        complete_at_first_tab_in_zsh()
    try:
        # Without standalone mode, Typer returns the exit code and raises usage errors.
        sys.exit(app(standalone_mode=False))
    except (Exception, KeyboardInterrupt) as error:
        from rlexp.cli.error_report import make_error_report

        report_of_error = make_error_report(error, sys.argv[1:])
        if report_of_error is None:
            raise
    # The arguments may be what is wrong, so `--json` is looked up without Typer.
    report_of_error.show(as_json="--json" in sys.argv[1:])
    sys.exit(report_of_error.exit_code)


if __name__ == "__main__":
    main()
