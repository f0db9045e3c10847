"""With `--json`, an error is a document with its code, allowed values and next command."""

import io
import json
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import NoReturn, get_args

import pytest
from command_line import give
from command_line import typed as rlexp
from jsonschema import Draft202012Validator
from stored_runs import stored, study

from rlexp.__main__ import main as start
from rlexp.app.results import ErrorDocument
from rlexp.config.json_schema import json_schema
from rlexp.errors import CODES, Code, ConfigError, RecordError, RlexpError

ROOT = Path(__file__).parents[1]
SCHEMA = Draft202012Validator(json_schema(ErrorDocument, "error", 1))
MISTAKES = [
    ("run algoritm=ppo", "unknown_setting", "algoritm", "algorithm"),
    ("run algorithm=poo", "unknown_option", "algorithm", "ppo"),
    ("run +algoritm=ppo", "unknown_group", "algoritm", "algorithm"),
    ("run budget.stesp=1", "unknown_setting", "budget.stesp", "steps"),
    ("run algorithm.gamma=3", "out_of_range", "algorithm.gamma", "less than or equal to 1"),
    ("run phase=tset", "unknown_value", "phase", "test"),
    ("run executor.workers=x", "wrong_type", "executor.workers", None),
    ("run algorithm=ppo,", "wrong_type", "algorithm=ppo,", None),
    ("config list algo", "unknown_group", "algo", "algorithm"),
    ("show alhpa", "unknown_experiment", "alhpa", "alpha"),
    ("ls alhpa", "unknown_experiment", "alhpa", "alpha"),
    ("show alpha/nothing", "unknown_run", "alpha/nothing", None),
    ("show alpha/ppo", "ambiguous_run", "alpha/ppo", None),
    ("ls alpha --sort socre", "unknown_value", "--sort", "score"),
    ("report alpha --phase tset", "unknown_value", "--phase", "test"),
    ("shwo", "usage", None, None),
    ("show", "usage", "target", None),
    ("run --jso", "usage", "--jso", "--json"),
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with an experiment of two runs."""
    folder = tmp_path_factory.mktemp("workspace")
    experiment = stored(study(folder).layout, "alpha")
    experiment.complete(0, 1.0)
    experiment.complete(1, 2.0)
    return folder


@pytest.mark.parametrize(("words", "code", "key", "allowed"), MISTAKES)
def test_a_mistake_is_a_document(
    workspace: Path, words: str, code: str, key: str | None, allowed: str | None
) -> None:
    """With `--json`, a mistake also gives a document; exit code and message stay the same."""
    with_json = rlexp(workspace, *words.split(), "--json")
    as_text = rlexp(workspace, *words.split())
    document = with_json.content
    SCHEMA.validate(document)
    assert (code, key) == (document["code"], document["key"])
    assert allowed is None or allowed in document["allowed"]
    assert (2, "") == (as_text.code, as_text.out)
    assert (as_text.code, as_text.err) == (with_json.code, with_json.err)
    assert document["message"] in as_text.err


def test_the_next_command_is_named(workspace: Path) -> None:
    """The error of an unknown option names the command that lists the options of its group."""
    document = rlexp(workspace, "run", "algorithm=poo", "--json").content
    assert "rlexp config list algorithm" == document["command"]


def test_an_unwritable_folder_is_a_document(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder for runs that cannot be created gives an error document and exit code 2."""
    monkeypatch.setenv("RLEXP_RUNS", "/proc/no/runs")
    printed = rlexp(workspace, "run", "experiment=new", "--json")
    assert 2 == printed.code
    SCHEMA.validate(printed.content)


@pytest.mark.parametrize("words", ["ls x", "best x", "run", "config list"])
def test_a_deleted_folder_is_one_line(tmp_path: Path, words: str) -> None:
    """A command in a folder that another process has deleted says so, without a traceback."""
    (folder := tmp_path / "deleted").mkdir()
    script = f"import os, sys; os.rmdir({str(folder)!r}); from rlexp.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", script, *words.split()],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (2, 1) == (ended.returncode, ended.stderr.count("\n")), ended.stderr
    assert "was deleted: change to another one" in ended.stderr


def test_several_mistakes_are_in_one_message(workspace: Path) -> None:
    """A message about several mistakes has all of them, and the document has the key of one."""
    words = ("run", "algorithm.gamma=3", "budget.steps=-1", "--json")
    document = rlexp(workspace, *words).content
    assert "algorithm.gamma=3" in document["message"]
    assert "budget.steps=-1" in document["message"]
    assert document["key"] in {"algorithm.gamma", "budget.steps"}


INTERRUPTIONS = [
    (
        "config show",
        "rlexp.app.commands.setup.configuration.compose_words",
        "rlexp: interrupted\n",
    ),
    (
        "run",
        "rlexp.app.commands.train.run.run",
        "rlexp: interrupted; the same command continues\n",
    ),
    ("status --watch", "rlexp.app.commands.look.status.watch", ""),
]
"""Commands, a function of each that Ctrl-C interrupts, and what standard error says then."""


def interrupt(*arguments: object, **options: object) -> NoReturn:
    """Do what Python does on Ctrl-C."""
    del arguments, options
    raise KeyboardInterrupt


@pytest.mark.parametrize(("words", "function", "line"), INTERRUPTIONS)
def test_an_interrupted_command_has_a_document(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, words: str, function: str, line: str
) -> None:
    """Ctrl-C before a result gives the code `interrupted`, and one line where a command was to end."""
    monkeypatch.setattr(function, interrupt)
    printed = rlexp(workspace, *words.split(), "--json")
    assert (130, "interrupted", line) == (printed.code, printed.content["code"], printed.err)


def test_a_command_line_that_is_interrupted_while_it_is_parsed_says_so(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C before the command is known gives the same code and one line."""
    monkeypatch.setattr("typer.core.TyperGroup.make_context", interrupt)
    printed = rlexp(workspace, "show", "alpha")
    assert (130, "rlexp: interrupted\n") == (printed.code, printed.err)


@pytest.mark.parametrize("function", ["rlexp.interrupts.remember_interrupts", "rlexp.cli.main"])
def test_an_interrupted_import_of_the_command_line_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], function: str
) -> None:
    """Ctrl-C while Python imports the command line gives one line and the same code."""
    monkeypatch.setattr(function, interrupt)
    with pytest.raises(SystemExit) as end:
        start()
    assert (130, "rlexp: interrupted\n") == (end.value.code, capsys.readouterr().err)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_document_is_the_same_in_every_encoding(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """A result and an error with characters that an encoding lacks are the same JSON values."""
    give(workspace, "note", "alpha", "Größe 🤖")
    for words in (("note", "alpha"), ("show", "🤖ß")):
        expected = rlexp(workspace, *words, "--json").content
        written = io.BytesIO()
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
            patch.setattr("command_line.redirect_stdout", nullcontext)
            rlexp(workspace, *words, "--json")
            assert expected == json.loads(written.getvalue().decode(encoding))


def test_every_code_is_described() -> None:
    """Every error code has a description."""
    assert set(get_args(Code)) == set(CODES)


def test_documented_codes_are_those_of_the_program() -> None:
    """The table in docs/reference/json.md is the list of codes."""
    page, _, _ = (ROOT / "docs" / "reference" / "json.md").read_text().partition("## Documents")
    assert dict(CODES) == dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE))


def test_a_class_has_a_code_that_an_error_may_replace() -> None:
    """An error has the code of its class unless it gets another one."""
    assert ("records", "held") == (RecordError("…").code, RecordError("…", code="held").code)


def test_an_unknown_value_is_described_with_the_known_ones() -> None:
    """The message has the unknown value, the most similar allowed one, and all allowed ones."""
    error = ConfigError.unknown("there is no phase 'tset'", "tset", ["test", "tuning"], key="p")
    text = "there is no phase 'tset'; did you mean 'test'? (there are: test, tuning)"
    assert (text, ("test", "tuning"), "p") == (str(error), error.allowed, error.key)


def test_a_rephrased_error_keeps_its_code_and_key() -> None:
    """Rephrasing an error changes only its message."""
    error = RlexpError("x", code="usage", key="k", allowed=["a"], command="c").rephrased("y x")
    assert ("y x", "usage", "k", ("a",), "c") == (
        str(error),
        error.code,
        error.key,
        error.allowed,
        error.command,
    )


def test_words_that_a_command_does_not_take_are_named(workspace: Path) -> None:
    """Further words are refused in a plain sentence, with the command that shows what is taken."""
    printed = rlexp(workspace, "ls", "alpha", "beta", "gamma")
    assert "rlexp: the command does not take beta gamma; see 'rlexp ls --help'\n" == printed.err
