"""Generates the pages of the documentation site about commands, settings and Python.

The text comes from the program: options from Typer, settings from `conf/` and the dataclasses that
receive them, functions from their docstrings.
"""

import importlib
import json
import types
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

CONF = Path(__file__).parents[1] / "conf"
PYTHON = """\
# Python functions

The functions of `rlexp` do the same as the commands of the same name: `rlexp.run(...)` does what
`rlexp run` does. [Python](python.md) shows them at work.

```{eval-rst}
.. automodule:: rlexp.api
   :members:

.. automodule:: rlexp.errors
   :members: RlexpError
```
"""


def reference_pages() -> dict[str, str]:
    """The text of each generated page, by its path in the site."""
    return {
        "reference/commands.md": "".join(commands_page()),
        "reference/settings.md": "".join(settings_page()),
        "reference/functions.md": PYTHON,
    }


def commands_page() -> Iterator[str]:
    """The commands with their arguments and options."""
    import typer

    from rlexp.cli.every_command import app

    yield "# Commands\n\nWhat `rlexp COMMAND --help` prints, for every command.\n"
    yield from _command("rlexp", typer.main.get_command(app))


def _command(name: str, command: Any) -> Iterator[str]:
    if commands := getattr(command, "commands", None):
        for word, member in commands.items():
            yield from _command(f"{name} {word}", member)
        return
    yield f"\n## {name}\n\n{_prose(command.help or '')}\n\n"
    words = [_usage(p) for p in command.params if p.param_type_name == "argument"]
    yield f"```text\n{' '.join([name, '[OPTIONS]', *words])}\n```\n"
    rows = [_parameter(parameter) for parameter in command.params if not parameter.hidden]
    yield "\n| argument or option | default | meaning |\n|---|---|---|\n" + "".join(rows)


def _usage(argument: Any) -> str:
    word = f"{(argument.metavar or argument.name).strip('[]').removesuffix('...').upper()}"
    word += "…" if argument.nargs == -1 else ""
    return word if argument.required else f"[{word}]"


def _parameter(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    names = [*parameter.opts, *parameter.secondary_opts] if is_option else [_usage(parameter)]
    default = parameter.default
    has_default = isinstance(default, str | int | float) and not isinstance(default, bool)
    shown = f"`{default}`" if has_default else "required" if parameter.required else "—"
    return f"| {', '.join(f'`{n}`' for n in names)} | {shown} | {_cell(parameter.help or '')} |\n"


def _prose(text: str) -> str:
    """A help text as Markdown; what looks like HTML is no HTML."""
    return text.replace("\b", "").replace("<", "\\<").replace("*", "\\*")


def _cell(text: str) -> str:
    return _prose(" ".join(text.split())).replace("|", "\\|")


def settings_page() -> Iterator[str]:
    """The settings by group, with type, default and meaning; then the options of each group."""
    from rlexp.config.word_search import list_settings

    with TemporaryDirectory() as folder:
        entries = list_settings(Path(folder))
    yield "# Settings\n\nEvery setting that a word on the command line can change, and every option of "
    yield "every group. [Configuration](configuration.md) explains them in the order in which they "
    yield "are needed. `rlexp config search WORD` finds them in the terminal.\n"
    for group in dict.fromkeys(_group(entry) for entry in entries):
        rows = [entry for entry in entries if _group(entry) == group]
        yield f"\n## {group}\n"
        settings = [row for row in rows if not row.is_option]
        if settings:
            yield "\n| setting | type | default | meaning | options that have it |\n"
            yield "|---|---|---|---|---|\n" + "".join(map(_setting, settings))
        if options := [row for row in rows if row.is_option]:
            yield "\n| option | meaning |\n|---|---|\n"
            yield from (f"| `{group}={o.default}` | {_cell(o.meaning)} |\n" for o in options)


def _group(entry: Any) -> str:
    if entry.is_option:
        return str(entry.key)
    if entry.of_reports:
        return "report"
    first, dot, _ = entry.key.partition(".")
    return first if dot else "experiment"


def _setting(entry: Any) -> str:
    default = "required" if entry.default == "???" else f"`{json.dumps(entry.default)}`"
    shown = ", ".join(f"`{name}`" for name in entry.options[:6])
    more = f", … ({len(entry.options)})" if len(entry.options) > 6 else ""
    kind = _type_of(entry)
    cells = (
        f"`{entry.key}`",
        kind,
        default.replace("|", "\\|"),
        _cell(entry.meaning),
        shown + more,
    )
    return "| " + " | ".join(cell or "—" for cell in cells) + " |\n"


def _type_of(entry: Any) -> str:
    """The type and the bounds of a setting, from the dataclass that receives it."""
    prefix, _, name = entry.key.rpartition(".")
    group = {"environment.components": "component"}.get(prefix.rpartition(".")[0], prefix)
    files = [CONF / group / f"{option}.yaml" for option in entry.options]
    fields = [_fields(str(file)) for file in files if file.exists()]
    return next((text[name] for text in fields if name in text), _of_default(entry.default))


def _of_default(value: Any) -> str:
    return "" if value is None or value == "???" else type(value).__name__


@cache
def _fields(file: str) -> dict[str, str]:
    """The types of the fields of the class that an option names, in words."""
    content = yaml.safe_load(Path(file).read_text()) or {}
    parts = [content, *(v for v in content.values() if isinstance(v, dict) and "_target_" in v)]
    fields: dict[str, str] = {}
    for part in parts:
        module, _, name = str(part.get("_target_", "")).rpartition(".")
        if module.startswith("rlexp."):
            kind = getattr(importlib.import_module(module), name)
            hints = typing.get_type_hints(kind, include_extras=True)
            fields |= {field: _type_words(hint) for field, hint in hints.items()}
    return fields


def _type_words(hint: Any) -> str:
    """A type in words: `int, at least 1, or null`."""
    if hint is type(None):
        return "null"
    if typing.get_origin(hint) is typing.Annotated:
        bounds = [text for item in hint.__metadata__ for text in _bounds(item)]
        return ", ".join([_type_words(hint.__origin__), *bounds])
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return " or ".join(_type_words(part) for part in typing.get_args(hint))
    if typing.get_origin(hint) is typing.Literal:
        return "one of " + ", ".join(f"`{value}`" for value in typing.get_args(hint))
    if arguments := [a for a in typing.get_args(hint) if a is not Ellipsis]:
        inside = ", ".join(_type_words(argument) for argument in arguments)
        return f"{getattr(typing.get_origin(hint), '__name__', hint)} of {inside}"
    return getattr(hint, "__name__", str(hint))


def _bounds(item: Any) -> Iterator[str]:
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    for name, text in words.items():
        value = getattr(item, name, None)
        if value is not None and abs(value) != float("inf"):
            yield f"{text} {value}"
