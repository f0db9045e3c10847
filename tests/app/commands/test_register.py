"""`rlexp register` seals a study before its runs, and `rlexp run --protocol` runs what is sealed."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from command_line import give, give_json, rlexp
from quick_parts import quick_parts
from stored_runs import STARTED, configuration, stored, study

from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError, RlexpError
from rlexp.protocol.identity import digest
from rlexp.protocol.seeds import Phase
from rlexp.store.layout import Layout
from rlexp.store.registers.protocols import read_protocols
from rlexp.store.runs import read_definition

quick = pytest.fixture(autouse=True)(quick_parts)
STUDY = """
name: ppo-or-a2c
words: [environment=cartpole]
variants:
  ppo: [algorithm=ppo, algorithm.n_steps=32, algorithm.batch_size=32]
  a2c: [algorithm=a2c]
seeds: {test: 2}
budget: {steps: 64, final_episodes: 1, evaluation_every: null}
trackers: []
protocol:
  question: Does PPO score higher than A2C?
  margin: 20
"""
NONCE = ("--nonce", "beacon 4000000")
REGISTER = ("register", "duel", "study.yaml", *NONCE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a study file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    (tmp_path / "study.yaml").write_text(STUDY)
    return tmp_path


def refused(folder: Path, *words: str) -> str:
    """The message of a command that is refused and registers nothing."""
    before = read_protocols(Layout(folder / "runs")).sums
    with pytest.raises(RlexpError) as error:
        rlexp(folder, *words)
    assert before == read_protocols(Layout(folder / "runs")).sums
    return str(error.value)


def change(folder: Path, old: str, new: str) -> None:
    """Change the study file."""
    assert old in STUDY
    (folder / "study.yaml").write_text(STUDY.replace(old, new))


def test_a_registration_shows_what_was_sealed(folder: Path) -> None:
    """Question, labels, budget, seeds, metric, test and hash are shown, and the next commands."""
    text = give(folder, *REGISTER, "--nonce-source", "drand round 4000000")
    (registration,) = read_protocols(Layout(folder / "runs")).registrations
    for shown in (
        "duel is registered",
        "Does PPO score higher than A2C?",
        "ppo and a2c",
        "64 environment steps, score final",
        f"2 test seeds (0–1) of root {registration.root}",
        "permutation test, alpha 0.05, margin 20",
        "beacon 4000000 (drand round 4000000)",
        registration.study.hash,
        "To run it: rlexp run --protocol duel",
        "2 seeds per label cannot decide between 2 labels",
    ):
        assert shown in text


def test_hash_and_root_can_be_computed_by_anybody(folder: Path) -> None:
    """The documented formulas give the hash and the root from the line of the register."""
    result = give_json(folder, "registered-protocol", *REGISTER)
    line = json.loads((folder / "runs/protocols.jsonl").read_text())
    sealed = line["study"]
    configurations = sorted(
        [c["label"], c["task"], c["fingerprint"], c["reference"], c.get("measures", {})]
        for c in sealed["configurations"]
    )
    sha = digest(
        [
            sealed["question"],
            configurations,
            sealed["seeds"],
            sealed["failures"],
            sealed["settings"],
        ]
    )
    root = int(digest(["root of test seeds", "test", sha, line["nonce"]])[:12], 16)
    assert (sha, root) == (result["hash"], result["root"]) == (line["hash"], line["root"])


def test_the_same_command_again_changes_nothing(folder: Path) -> None:
    """After a kill, the same command returns the registration that was made first."""
    first = give_json(folder, "registered-protocol", *REGISTER)
    again = give_json(folder, "registered-protocol", *REGISTER)
    assert (False, True) == (first.pop("unchanged"), again.pop("unchanged"))
    assert first == again
    text = give(folder, *REGISTER)
    assert "duel was registered before" in text
    assert "was not recorded" not in text


def test_a_source_that_comes_later_is_not_recorded(folder: Path) -> None:
    """The same command with another `--nonce-source` says that the source was not recorded."""
    give(folder, *REGISTER)
    text = give(folder, *REGISTER, "--nonce-source", "drand round 4000000")
    assert "the source of the nonce was not recorded" in " ".join(text.split())
    (registration,) = read_protocols(Layout(folder / "runs")).registrations
    assert registration.nonce_source is None
    given = give_json(folder, "registered-protocol", *REGISTER, "--nonce-source", "drand")
    assert (True, None) == (given["source_dropped"], given["nonce_source"])


def test_a_report_file_that_includes_itself_is_refused(folder: Path) -> None:
    """`conf/report.yaml` with itself among its defaults gives one line, and no traceback."""
    (folder / "conf").mkdir()
    (folder / "conf/report.yaml").write_text("defaults: [report, _self_]\nmargin: 3\n")
    message = refused(folder, *REGISTER)
    assert (
        "conf/report.yaml: this file includes itself: take report out of its defaults" in message
    )
    assert "\n" not in message
    (folder / "conf/report.yaml").write_text("defaults: [a, _self_]\n")
    (folder / "conf/a.yaml").write_text("defaults: [b, _self_]\n")
    (folder / "conf/b.yaml").write_text("defaults: [a, _self_]\n")
    message = refused(folder, *REGISTER)
    assert "conf: the defaults of a file lead back to the file itself" in message


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  question: Does PPO score higher than A2C?\n", "", "has no question"),
        ("seeds: {test: 2}", "seeds: {test: 2, root: 7}", "the root of a protocol is derived"),
        ("  margin: 20", "  margin: wide", "line 12: protocol.margin: 'wide' is no number"),
        ("  margin: 20", "  margn: 20", "unknown key 'protocol.margn'; did you mean 'margin'?"),
        ("  margin: 20", "  margin: -1", "margin"),
        ("words: [", "words: [phase=tuning, ", "a protocol has test runs only"),
        ("protocol:", "sweep: quick\nprotocol:", "this study is a sweep"),
    ],
    ids=lambda value: value[:20],
)
def test_a_study_that_cannot_be_sealed_is_refused(
    folder: Path, old: str, new: str, message: str
) -> None:
    """A study without a question, with a root, with a wrong margin or of another phase is refused."""
    change(folder, old, new)
    assert message in refused(folder, *REGISTER)


def test_the_section_that_a_message_shows_can_be_pasted(folder: Path) -> None:
    """The example of a section in the message about a missing question is a valid one."""
    study_file = STUDY.partition("protocol:")[0]
    (folder / "study.yaml").write_text(study_file + "protocol: Is ppo better than a2c?\n")
    assert "line 10: write the question: protocol: {" in refused(folder, *REGISTER)
    (folder / "study.yaml").write_text(study_file)
    section = refused(folder, *REGISTER).partition("write ")[2].removesuffix(" into it")
    (folder / "study.yaml").write_text(f"{study_file}{section}\n")
    assert "Is ppo better than a2c?" in give(folder, *REGISTER)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("duel", "study.yaml", "--nonce", "today"), "can be guessed"),
        (("duel", "study.yaml", "--nonce", "two\nlines of text"), "a text of one line"),
        (("duel", "study.yaml", "seeds.root=3", *NONCE), "the root of a protocol is derived"),
        (("duel", "algorithm=ppo", *NONCE), "registered from a study file"),
        (("../duel", "study.yaml", *NONCE), "cannot be a folder name"),
        (("duel", "other.yaml", *NONCE), "the study file other.yaml does not exist"),
        (("duel", "study.yaml", "seeds.test=0", *NONCE), "there is nothing to run"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_command_is_refused(folder: Path, words: tuple[str, ...], message: str) -> None:
    """A short nonce, a given root, words without a file and a wrong name are refused."""
    assert message in refused(folder, "register", *words)


def test_a_registration_after_runs_is_refused(folder: Path) -> None:
    """Where an experiment has the name, or looks have used the seeds, it is too late to register."""
    stored(Layout(folder / "runs"), "duel")
    assert "a registration comes before its runs" in refused(folder, *REGISTER)
    root = give_json(folder, "registered-protocol", "register", "early", *REGISTER[2:])["root"]
    (folder / "runs/protocols.jsonl").unlink()
    give(folder, "run", "--help")
    experiment = stored(Layout(folder / "runs"), "trial", configuration("ppo"))
    definition = experiment.paths.definition
    definition.write_text(definition.read_text().replace('"root": 0', f'"root": {root}'))
    looked = type(experiment)(experiment.paths, read_definition(experiment.paths))
    looked.complete(0, 10.0)
    give(folder, "show", "trial")
    assert "were used before: give another nonce" in refused(
        folder, "register", "later", *REGISTER[2:]
    )


def test_a_second_registration_of_the_study_is_counted(folder: Path) -> None:
    """The same study with another nonce is registered, and its number is said."""
    give(folder, *REGISTER)
    text = give(folder, "register", "again", "study.yaml", "--nonce", "beacon 4000001")
    assert "This is registration 2 of 2 on its task, 2 of them of this study" in text


def test_a_protocol_is_run_on_its_derived_seeds(folder: Path) -> None:
    """`rlexp run --protocol` trains what is sealed without the file, and a repetition does nothing."""
    shown = give_json(folder, "registered-protocol", *REGISTER)
    (folder / "study.yaml").unlink()
    command = shlex.split(next(n["command"] for n in shown["next"] if n["why"] == "run it"))
    text = give(folder, *command[1:], "executor.workers=2", "--no-probe")
    assert re.search(r"Protocol: duel \(hash \w{12}\): kept\.", " ".join(text.split()))
    assert "seeds.test=" not in text
    experiment = read_definition(Layout(folder / "runs").experiment("duel"))
    assert (shown["root"], 2) == (experiment.seeds.root, len(experiment.seeds.seeds(Phase.TEST)))
    assert {row["fingerprint"] for row in shown["labels"]} == {
        c.fingerprint for c in experiment.configurations
    }
    assert "nothing to run" in give(folder, *command[1:])
    assert "duel: nothing to run" in give(folder, "resume", "duel")
    assert "): kept\n" in give(folder, "verify")


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("seeds.root=3", "the root of duel is derived"),
        ("phase=tuning", "the root of duel is for no other seeds"),
        ("phase=selection", "the root of duel is for no other seeds"),
        ("seeds.tuning=3", "the root of duel is for no other seeds"),
        ("algorithm=sac", "the configurations of duel are sealed"),
        ("experiment=other", "the configurations of duel are sealed"),
        ("study.yaml", "is sealed in the register: type rlexp run --protocol duel"),
    ],
)
def test_what_is_sealed_cannot_be_changed_by_words(folder: Path, word: str, message: str) -> None:
    """The derived root serves test seeds of the sealed configurations only."""
    give(folder, *REGISTER)
    assert message in refused(folder, "run", "--protocol", "duel", word)


def test_a_plan_says_that_it_deviates(folder: Path) -> None:
    """Another budget or number of seeds is possible, and the plan names it before training."""
    give(folder, *REGISTER)
    plan = ("run", "--protocol", "duel", "--dry-run")
    assert re.search(r"protocol duel \(hash \w{12}\): kept", give(folder, *plan))
    words = ("seeds.test=1", "budget.steps=32")
    text = give_json(folder, "run-plan", *plan, *words)["protocol"]
    assert text.endswith("deviates: 1 of 2 seeds; budget 32 instead of 64")


def test_the_name_of_a_protocol_is_taken(folder: Path) -> None:
    """An ordinary run under the name, another name for it, and more seeds for it are refused."""
    give(folder, *REGISTER)
    message = refused(folder, "run", "study.yaml", "experiment=duel", "--dry-run")
    assert "to run it, type rlexp run --protocol duel" in message
    root = read_protocols(Layout(folder / "runs")).registrations[0].root
    runs = stored(Layout(folder / "runs"), "duel", configuration("ppo"), configuration("a2c"))
    definition = runs.paths.definition
    definition.write_text(definition.read_text().replace('"root": 0', f'"root": {root}'))
    assert "keeps its name" in refused(folder, "mv", "duel", "other")
    assert "is a registered protocol with 2 seeds" in refused(
        folder, "compare", "duel", "--adaptive"
    )


def test_an_unknown_protocol_names_the_registered_ones(folder: Path) -> None:
    """A mistyped name lists the protocols, and without any the command that registers."""
    message = refused(folder, "run", "--protocol", "duell")
    assert "to register one: rlexp register NAME study.yaml --nonce TEXT" in message
    give(folder, *REGISTER)
    assert "(there are: duel)" in refused(folder, "run", "--protocol", "duell")


def test_an_edited_registration_is_not_run(folder: Path) -> None:
    """A protocol whose line was changed is refused before anything is trained."""
    give(folder, *REGISTER)
    register = folder / "runs/protocols.jsonl"
    register.write_text(register.read_text().replace('"steps":64', '"steps":128'))
    message = refused(folder, "run", "--protocol", "duel")
    assert "is not in the register of protocols, which was changed" in message


def test_code_that_only_the_register_names_needs_permission(folder: Path) -> None:
    """A forged register imports no package of its author's choice."""
    give(folder, *REGISTER)
    register = folder / "runs/protocols.jsonl"
    (folder / "evil.py").write_text("raise SystemExit('executed')")
    line = json.loads(register.read_text())
    for sealed in line["study"]["configurations"]:
        sealed["agent"]["_target_"] = "evil.Agent"
    values: dict[str, Any] = {
        k: v for k, v in line.items() if k not in {"schema", "before", "sum"}
    }
    line["sum"] = digest(values)
    register.write_text(json.dumps(line, separators=(",", ":")) + "\n")
    message = refused(folder, "run", "--protocol", "duel")
    assert "files under runs/ name code that would be executed: evil" in message


def test_a_study_with_a_protocol_section_runs_as_before(folder: Path) -> None:
    """The section `protocol` changes nothing for `rlexp run`, so that a study can be tried first."""
    plan = give_json(folder, "run-plan", "run", "study.yaml", "phase=tuning", "--dry-run")
    assert ("tuning", None) == (plan["phase"], plan["protocol"])


def test_a_protocol_and_a_trial_of_a_sweep_exclude_each_other(folder: Path) -> None:
    """`--protocol` with `--from-sweep` is refused."""
    give(folder, *REGISTER)
    with pytest.raises(ConfigError, match="leave out --from-sweep"):
        rlexp(folder, "run", "--protocol", "duel", "--from-sweep", "quick")


def test_the_time_of_a_registration_is_now(folder: Path) -> None:
    """A registration holds the time at which it was made."""
    give(folder, *REGISTER)
    workspace: Workspace = study(folder)
    (registration,) = read_protocols(workspace.layout).registrations
    assert STARTED < registration.time


def test_a_registration_seals_the_values_of_metrics(folder: Path) -> None:
    """Another value of a metric in `conf/report.yaml` is another study, with other test seeds."""
    first = give_json(folder, "registered-protocol", *REGISTER)
    sealed = first["settings"]["metric_definitions"]["optimality_gap"]
    assert {"_target_": "rlexp.metrics.optimality_gap.OptimalityGap", "gamma": 1.0} == sealed
    metric = folder / "conf/metric"
    metric.mkdir(parents=True)
    text = f"optimality_gap:\n  _target_: {sealed['_target_']}\n  gamma: 2.0\n"
    (metric / "optimality_gap.yaml").write_text(text)
    second = give_json(folder, "registered-protocol", "register", "second", *REGISTER[2:])
    assert first["root"] != second["root"]
    # The cut of the IQM is the setting `iqm`, and is sealed there.
    assert "cut" not in first["settings"]["metric_definitions"]["iqm"]
