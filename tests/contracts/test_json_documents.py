"""With `--json`, a command writes one document, which its published JSON Schema describes."""

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from command_line import Printed
from command_line import typed as rlexp
from jsonschema import Draft202012Validator
from stored_runs import configuration, stored, study

from rlexp.app.commands.setup.schemas import list_schemas, result_types
from rlexp.app.execution.request import read_request

IMPORT = ("import", "--steps-unit", "environment")
QUICK = ("budget.steps=2048", "budget.evaluation_every=null", "budget.final_episodes=2")


@dataclass(frozen=True, slots=True)
class Case:
    """A command without `--json`, and the schema of its JSON document."""

    words: tuple[str, ...]
    schema: str

    def __str__(self) -> str:
        """The command."""
        return " ".join(self.words)


# The commands run in a workspace with three experiments: `alpha` has three runs with scores,
# of which the first is `alpha/RUN`; `duel` and `pair` compare two labels.
CASES = [
    Case(("run", "--dry-run", "experiment=new", "seeds.test=2", *QUICK), "run-plan"),
    Case(("config", "show", "algorithm=ppo,a2c"), "configurations"),
    Case(("config", "list"), "configuration-groups"),
    Case(("config", "list", "agent"), "configuration-options"),
    Case(("config", "validate", "seeds.test=2"), "valid-configurations"),
    Case(("config", "schema"), "json-schemas"),
    Case(("doctor",), "diagnosis"),
    Case(("sync",), "pushed"),
    Case(("sync", "tracker=[tensorboard]"), "pushed"),
    Case(("init", "another"), "scaffold"),
    Case(("worker", "alpha", "--idle", "0"), "worker-outcome"),
    Case(("sweep", "quick", "--dry-run", "experiment=searched"), "sweep-plan"),
    Case(("resume", "--dry-run"), "resume-outcome"),
    Case(("ls",), "listing"),
    Case(("ls", "alpha"), "listing"),
    Case(("ls", "--group"), "listing"),
    Case(("show", "alpha"), "experiment-details"),
    Case(("show", "alpha/RUN"), "run-details"),
    Case(("show", "alpha/RUN", "--config"), "recorded-configuration"),
    Case(("show", "alpha/RUN", "--provenance"), "provenance"),
    Case(("status",), "status"),
    Case(("logs", "alpha/RUN"), "log"),
    Case(("diff", "alpha/RUN", "duel/RUN"), "run-differences"),
    Case(("register", "sealed", "study.yaml", "--nonce", "12345678"), "registered-protocol"),
    Case(("verify",), "verification"),
    Case(("bundle", "alpha", "--dry-run"), "bundle"),
    Case(("compare", "duel"), "comparison"),
    Case(("compare", "pair", "--adaptive", "--dry-run"), "next-look"),
    Case(("report", "alpha"), "report-files"),
    Case(("plot", "alpha"), "plot"),
    Case(("plot", "alpha", "--list-metrics"), "logged-metrics"),
    Case(("power", "--effect", "1"), "power-by-effect"),
    Case(("plan", "quick", "experiment=new", "--no-probe"), "sweep-advice"),
    Case(("power", "duel", "--difference", "50"), "power-by-pilot"),
    Case(("export", "csv", "alpha", "--output", "scores.csv"), "exported-files"),
    Case((*IMPORT, "scores.csv", "--experiment", "other", "--dry-run"), "import-outcome"),
    Case(("cancel", "alpha"), "cancellation"),
    Case(("rm", "alpha"), "removal"),
]
SCHEMAS = {row.name: row.json_schema for row in list_schemas().rows}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with the experiments `alpha`, `duel` and `pair`, whose runs have scores."""
    folder = tmp_path_factory.mktemp("workspace")
    experiment = stored(study(folder).layout, "alpha")
    for seed, score in enumerate((10.0, 20.0, 40.0)):
        experiment.complete(seed, score)
    duel = stored(study(folder).layout, "duel", *map(configuration, ("ppo", "a2c")), test=3)
    # A sequential comparison builds the plug-ins, so this experiment has all their settings.
    composed = read_request(["algorithm=ppo,a2c", "experiment=pair", *QUICK], study(folder))
    pair = stored(study(folder).layout, "pair", *composed.experiment.configurations, test=3)
    for experiment, seed in product((duel, pair), range(3)):
        experiment.complete(seed, 10.0 * seed, label="ppo")
        experiment.complete(seed, 20.0 * seed + 5, label="a2c")
    question = 'protocol: {question: "Which is better?"}'
    (folder / "study.yaml").write_text(f"words: [algorithm=ppo]\n{question}\n")
    return folder


def check(printed: Printed, schema: str) -> Any:
    """Check that a command wrote one document of a schema; return the document."""
    document = printed.content
    assert schema == document["schema"]["name"]
    Draft202012Validator(SCHEMAS[schema]).validate(document)
    return document


@pytest.mark.parametrize("case", CASES, ids=str)
def test_output_is_described_by_its_schema(case: Case, workspace: Path) -> None:
    """Standard output is one JSON document, and its schema describes it."""
    run = next((workspace / "runs" / "alpha").glob("*/spec.json")).parent.name
    words = [word.replace("RUN", run) for word in case.words]
    check(rlexp(workspace, *words, "--json"), case.schema)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schema_is_valid(schema: str) -> None:
    """The JSON Schema of each result follows the dialect that it names."""
    Draft202012Validator.check_schema(SCHEMAS[schema])


@pytest.mark.parametrize("kind", result_types(), ids=lambda kind: kind.schema.name)
def test_every_field_of_a_result_is_described(kind: Any) -> None:
    """The schema of each result has a description of each field."""
    properties = SCHEMAS[kind.schema.name]["properties"]
    assert [] == [name for name, content in properties.items() if not content.get("description")]


def test_a_document_of_another_shape_is_refused() -> None:
    """A schema refuses a document without one of its fields, and one with a wrong type."""
    validator = Draft202012Validator(SCHEMAS["valid-configurations"])
    document = {
        "schema": {"name": "valid-configurations", "version": 1},
        "configurations": [{"label": "ppo", "task": "CartPole-v1"}],
        "phase": "test",
        "runs": 1,
    }
    assert validator.is_valid(document)
    assert not validator.is_valid({**document, "runs": "1"})
    assert not validator.is_valid({**document, "configurations": [{"label": "ppo"}]})
    assert not validator.is_valid({**document, "schema": {"name": "another", "version": 1}})


def test_schemas_of_a_command_are_those_that_it_writes(workspace: Path) -> None:
    """`rlexp config schema` lists the schemas of a command, or the fields of one schema."""
    printed = rlexp(workspace, "config", "schema", "run", "--json")
    assert {"run-outcome", "run-plan"} == {row["name"] for row in printed.content["rows"]}
    lines = rlexp(workspace, "config", "schema", "run-plan").out.splitlines()
    assert "run-plan, version 1: The plan of one phase of an experiment." == lines[0]
    assert any(line.split()[:3] == ["steps", "integer", "Steps"] for line in lines)


def test_an_unknown_command_has_no_schema(workspace: Path) -> None:
    """The error for an unknown command lists the existing schemas."""
    printed = rlexp(workspace, "config", "schema", "runn")
    assert (2, "") == (printed.code, printed.out)
    assert "there is no schema 'runn'" in printed.err
    assert "run-outcome" in printed.err
