"""Commands that only read records print one document of their schema with `--json`."""

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import rlexp
from quick_parts import quick_parts
from stored_runs import Stored, configuration, failed, stored, study

from rlexp.app.commands.look.show import ShowPart, show
from rlexp.app.results import document
from rlexp.store.layout import Layout

quick = pytest.fixture(autouse=True)(quick_parts)

COMMANDS = [
    (("ls",), "listing"),
    (("ls", "alpha"), "listing"),
    (("ls", "--group"), "listing"),
    (("show", "alpha"), "experiment-details"),
    (("show", "RUN"), "run-details"),
    (("show", "alpha", "--config"), "recorded-configuration"),
    (("show", "RUN", "--config"), "recorded-configuration"),
    (("show", "alpha", "--provenance"), "provenance"),
    (("show", "RUN", "--provenance"), "provenance"),
    (("status",), "status"),
    (("status", "alpha", "--watch"), "status"),
    (("logs", "RUN"), "log"),
    (("diff", "RUN", "OTHER"), "run-differences"),
    (("verify",), "verification"),
    (("cancel", "alpha"), "cancellation"),
    (("cancel", "RUN"), "cancellation"),
    (("rm", "alpha"), "removal"),
]
"""Words of each command and the name of the schema of its result."""


@pytest.fixture
def alpha(tmp_path: Path) -> Stored:
    """Two labels with a completed run, a failed one, and a score that JSON cannot hold."""
    alpha = stored(Layout(tmp_path / "runs"), "alpha", configuration(), configuration("a2c"))
    alpha.complete(0, 100.0)
    alpha.complete(1, float("nan"))
    alpha.attempt(0, failed(), label="a2c", log="it broke\n")
    return alpha


@pytest.mark.parametrize(("words", "schema"), COMMANDS, ids=str)
def test_standard_output_is_one_document(
    alpha: Stored, tmp_path: Path, words: tuple[str, ...], schema: str
) -> None:
    """The document begins with its schema and is the only output."""
    names = {"RUN": alpha.run(0).folder.name, "OTHER": alpha.run(0, "a2c").folder.name}
    printed = rlexp(tmp_path, *(names.get(word, word) for word in words), "--json")
    assert printed.document(schema)
    assert printed.out.lstrip("{ \n").startswith('"schema"')
    assert "" == printed.err


@pytest.mark.parametrize(
    "target", [lambda stored: stored.paths.name, lambda stored: stored.run(0).folder.name]
)
def test_the_command_line_prints_what_the_use_case_returns(
    alpha: Stored, tmp_path: Path, target: Callable[[Stored], str]
) -> None:
    """The JSON of `rlexp show` is the document of the result of `show` in Python."""
    result = document(show(target(alpha), ShowPart.RESULT, study(tmp_path)))
    name = result.pop("schema")["name"]
    assert result == rlexp(tmp_path, "show", target(alpha), "--json").document(name)
