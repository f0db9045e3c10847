"""Compares what rlexp offers to users with `.ci/public_surface.txt`, and renews that file.

The file has one line for each name that other programs and people rely on: commands with their
arguments and options, exit codes, codes of errors, fields of JSON documents, functions of the Python
API, settings in `conf/`, and the schemas of files under `runs/`. docs/reference/stability.md says what is promised
about them.

`.venv/bin/python .ci/public_surface.py` names every difference. `--write` renews the file, where lines are
added only; with `--accept-removals`, also where lines are gone.
"""

import argparse
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / ".ci" / "public_surface.txt"
MOST_SHOWN = 40
"""Largest number of differences that are printed."""
COMMAND = ".venv/bin/python .ci/public_surface.py"


def surface() -> set[str]:
    """All lines of the present program."""
    sources = (commands, exit_codes, error_codes, documents, python_api, settings, file_schemas)
    return {line for source in sources for line in source()}


def commands() -> Iterator[str]:
    """Commands with their arguments and options."""
    from typer.main import get_command

    from rlexp.cli.every_command import app

    yield from _parameters("rlexp", get_command(app))


def _parameters(name: str, command: Any) -> Iterator[str]:
    yield f"command {name}"
    for index, argument in enumerate(_of_kind(command, "argument"), 1):
        yield f"command {name} argument {index} {_presence(argument)}"
    for option in _of_kind(command, "option"):
        for word in (*option.opts, *option.secondary_opts):
            yield f"command {name} option {word} {_value(option)}"
    for word, subcommand in getattr(command, "commands", {}).items():
        yield from _parameters(f"{name} {word}", subcommand)


def _of_kind(command: Any, kind: str) -> list[Any]:
    return [parameter for parameter in command.params if parameter.param_type_name == kind]


def _presence(argument: Any) -> str:
    number = "several" if argument.nargs == -1 else "one"
    return f"{'required' if argument.required else 'optional'} {number}"


def _value(option: Any) -> str:
    if option.is_flag:
        return "flag"
    return "values" if option.multiple else "value"


def exit_codes() -> Iterator[str]:
    """Exit codes with their names."""
    from rlexp.cli import exit_codes as codes

    numbers = {name: value for name, value in vars(codes).items() if name.isupper()}
    of_signals = numbers.pop("OF_SIGNALS")
    for name, code in {
        **numbers,
        **{signal.name: of_signals[signal] for signal in of_signals},
    }.items():
        yield f"exit code {code} {name}"


def error_codes() -> Iterator[str]:
    """Codes of errors in JSON documents."""
    from rlexp.errors import CODES

    return (f"error code {code}" for code in CODES)


def documents() -> Iterator[str]:
    """JSON documents with their versions, and their fields with their types."""
    from rlexp.app.commands.setup.schemas import list_schemas
    from rlexp.cli.setup.schemas import field_rows

    for schema in list_schemas().rows:
        yield f"document {schema.name} version {schema.version}"
        for row in field_rows(schema.json_schema):
            yield f"document {schema.name} version {schema.version} field {row.field}: {row.type}"


def python_api() -> Iterator[str]:
    """Functions of the package and methods of `Records`, with their parameters and defaults."""
    import rlexp
    from rlexp.app.commands.exchange.load import Records

    functions = {f"rlexp.{name}": getattr(rlexp, name) for name in rlexp.__all__}
    methods = inspect.getmembers(Records, inspect.isfunction)
    functions |= {f"Records.{name}": method for name, method in methods if name[0] != "_"}
    for name, function in functions.items():
        yield f"python {name}"
        for parameter in inspect.signature(function).parameters.values():
            text = str(parameter.replace(annotation=inspect.Parameter.empty))
            yield f"python {name} {parameter.kind.description} {text}"


def settings() -> Iterator[str]:
    """Settings of the main files in `conf/`, options of its groups, and the settings of options."""
    for file in (ROOT / "conf").glob("*.yaml"):
        yield from (f"setting {file.stem}.yaml {key}" for key in _keys(_read(file)))
    for file in (ROOT / "conf").glob("*/*.yaml"):
        group, option = file.parent.name, file.stem
        yield f"setting {group}={option}"
        # Benchmarks and environments set what is listed elsewhere; `gymnasium` has what they share.
        if group not in {"benchmark", "environment"} or option == "gymnasium":
            yield from (f"setting {group}={option} {key}" for key in _keys(_read(file)))


def _read(file: Path) -> Any:
    import yaml

    return yaml.safe_load(file.read_text())


def _keys(content: Any) -> Iterator[str]:
    for key, value in content.items() if isinstance(content, Mapping) else ():
        if key in {"defaults", "_target_"}:
            continue
        if isinstance(value, Mapping) and value:
            yield from (f"{key}.{below}" for below in _keys(value))
        else:
            yield str(key)


def file_schemas() -> Iterator[str]:
    """Schemas of files under `runs/` that can be read."""
    from rlexp.store import schemas

    for name, schema in vars(schemas).items():
        if isinstance(schema, schemas.FileSchema):
            for version in range(schema.oldest, schema.version + 1):
                yield f"file schema {name} {version}"


def differences(recorded: set[str], present: set[str]) -> list[str]:
    """The lines that are gone or new, with a sign in front of each; the first ones of many."""
    lines = [
        *(f"- {line}" for line in sorted(recorded - present)),
        *(f"+ {line}" for line in sorted(present - recorded)),
    ]
    more = len(lines) - MOST_SHOWN
    return [*lines[:MOST_SHOWN], f"and {more} more"] if more > 0 else lines


def advice(recorded: set[str], present: set[str]) -> str:
    """What to do about the differences."""
    if gone := len(recorded - present):
        return (
            f"{gone} lines of the public surface are gone. docs/reference/stability.md says how a name is deprecated. "
            f"What no release has promised may go: {COMMAND} --write --accept-removals"
        )
    return f"{len(present - recorded)} lines are new. To record them: {COMMAND} --write"


def compare(path: Path, present: set[str], *, write: bool, accept_removals: bool) -> str | None:
    """Compare the present surface with the recorded one, and renew the file where that is allowed.

    Returns:
        The differences and what to do about them; None where nothing is left to do.
    """
    recorded = set(path.read_text().splitlines()) if path.exists() else set()
    if recorded == present:
        return None
    if write and (accept_removals or recorded <= present):
        path.write_text("".join(f"{line}\n" for line in sorted(present)))
        return None
    return "\n".join([*differences(recorded, present), advice(recorded, present)])


def main() -> None:
    """Compare, and write on request; exits with code 1 where the file differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="renew the file")
    parser.add_argument("--accept-removals", action="store_true", help="also where lines are gone")
    options = parser.parse_args()
    text = compare(
        RECORDED, surface(), write=options.write, accept_removals=options.accept_removals
    )
    sys.exit(text)


if __name__ == "__main__":
    main()
