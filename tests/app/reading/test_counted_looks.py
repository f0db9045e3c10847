"""Commands count the configurations whose test scores were used, and say so."""

import shutil
from dataclasses import replace
from pathlib import Path
from textwrap import wrap

import pytest
from command_line import give, give_json, rlexp
from evidence_samples import inquiry, typical
from look_samples import look
from quick_parts import quick_parts
from stored_runs import Stored, configuration, stored, study
from stored_sweeps import finished_sweep

from rlexp.app.reading.looks import advice_on_looks
from rlexp.app.reporting.build import card_context
from rlexp.app.workspace import Workspace
from rlexp.errors import ConfigError
from rlexp.protocol.seeds import Phase
from rlexp.records.look import CountedLooks, SeedsOfTask, TaskLooks
from rlexp.reports.analysis.looks import look_counts, looks_text
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold
from rlexp.store.registers.looks import read_looks

quick = pytest.fixture(autouse=True)(quick_parts)
REPORT = ("report", "alpha", "--format", "json,html", "--set", "repetitions=200")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """An empty workspace, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    return study(tmp_path)


def finished(workspace: Workspace, name: str, *labels: str, steps: int = 100) -> Stored:
    """An experiment whose labels have four scores each."""
    configurations = [configuration(label, steps=steps) for label in labels]
    experiment = stored(workspace.layout, name, *configurations, test=4)
    for number, label in enumerate(labels):
        for seed in range(4):
            experiment.complete(seed, 100.0 + 10 * seed + number, label=label)
    return experiment


def looks_line(workspace: Workspace, *words: str) -> str:
    """What a command says about looks."""
    lines = give(workspace.folder, *words).replace("\n", " ")
    return lines.partition("Looks: ")[2]


def test_the_sentence_about_looks_fits_two_lines() -> None:
    """With a hundred configurations and large scores, two lines of 80 columns hold the sentence."""
    looks = tuple(look(n, mean=1000.0 + 50 * n, deviation=900.0) for n in range(100))
    seeds = SeedsOfTask(task="CartPole-v1", root=0, seeds=frozenset(looks[0].seeds))
    counted = CountedLooks(tasks=(TaskLooks(seeds=seeds, looks=looks),))
    report = inquiry(replace(typical(), looks=counted))
    text = looks_text(report, look_counts(report))
    assert text.startswith("100 configurations have been tried on these test seeds; the best")
    assert len(wrap(f"Looks: {text}.", 80)) == 2, text


def test_the_first_comparison_says_one_sentence(workspace: Workspace) -> None:
    """Two labels on fresh test seeds give their number and the overstatement, and no warning."""
    finished(workspace, "alpha", "ppo", "a2c")
    line = looks_line(workspace, "compare", "alpha")
    assert line.startswith("2 configurations have been tried on these test seeds; the best mean")
    assert "Warning" not in line


def test_one_configuration_overstates_nothing(workspace: Workspace) -> None:
    """For a single configuration, only the number is said."""
    finished(workspace, "alpha", "ppo")
    line = looks_line(workspace, "show", "alpha")
    assert line.startswith("1 configuration has been tried on these test seeds.")


def test_each_task_has_its_own_count(workspace: Workspace) -> None:
    """On two tasks, the sentence has the amount of each; with one seed each, it has none."""
    experiments = [
        stored(workspace.layout, name, *(configuration(label, task) for label in ("ppo", "a2c")))
        for name, task in (("alpha", "CartPole-v1"), ("beta", "Acrobot-v1"))
    ]
    for seed in range(2):
        for number, label in enumerate(("ppo", "a2c")):
            for experiment in experiments:
                experiment.complete(seed, 100.0 + 10 * seed + number, label=label)
        line = looks_line(workspace, "compare", "alpha", "beta")
        assert line.startswith(
            "2 configurations have been tried on the test seeds of each of 2 tasks"
        )
        assert (seed > 0) == (" on Acrobot-v1 and " in line), line


def test_a_look_counts_once_however_often_it_is_shown(workspace: Workspace) -> None:
    """`show`, `compare` and `report` of the same scores make one entry of each configuration."""
    finished(workspace, "alpha", "ppo", "a2c")
    for words in (("show", "alpha"), ("compare", "alpha"), REPORT, ("show", "alpha")):
        give(workspace.folder, *words)
        assert 2 == len(read_looks(workspace.layout).looks)


def test_configurations_of_every_experiment_count(workspace: Workspace) -> None:
    """A second experiment on the same test seeds raises the count and the overstatement."""
    finished(workspace, "alpha", "ppo", "a2c")
    (first,) = give_json(workspace.folder, "comparison", "compare", "alpha")["card"]["looks"]
    for number in range(4):
        finished(workspace, f"other-{number}", "dqn", steps=200 + number)
        give(workspace.folder, "show", f"other-{number}")
    (second,) = give_json(workspace.folder, "comparison", "compare", "alpha")["card"]["looks"]
    assert (2, 6) == (first["configurations"], second["configurations"])
    assert first["overstatement"]["estimate"] < second["overstatement"]["estimate"]
    assert first["digest"] != second["digest"]


def test_looks_survive_the_removal_of_their_records(workspace: Workspace) -> None:
    """A configuration whose experiment was removed still counts."""
    finished(workspace, "alpha", "ppo")
    finished(workspace, "beta", "dqn")
    give(workspace.folder, "show", "beta")
    give(workspace.folder, "rm", "beta", "--yes")
    assert looks_line(workspace, "show", "alpha").startswith("2 configurations")


def test_other_seeds_begin_a_new_count(workspace: Workspace) -> None:
    """A configuration on seeds of another root is not counted with those of the first root."""
    alpha = finished(workspace, "alpha", "ppo", "a2c")
    give(workspace.folder, "show", "alpha")
    specs = [alpha.spec(0, label) for label in ("ppo", "a2c")]
    fresh = [spec.again(Phase.TEST, 1, 0) for spec in specs]
    tasks = {spec.fingerprint: "CartPole-v1" for spec in specs}
    other = configuration("dqn").spec(Phase.TEST, 0, 0)
    tasks[other.fingerprint] = "CartPole-v1"
    assert None is advice_on_looks(fresh, tasks, workspace.layout)
    # These two were looked at already: their repetition adds no choice.
    assert None is advice_on_looks(specs, tasks, workspace.layout)
    advice = advice_on_looks([other], tasks, workspace.layout)
    assert advice is not None
    assert "phase=tuning" in advice
    assert "seeds.root=1" in advice
    tuning = other.again(Phase.TUNING, 0, 0)
    assert None is advice_on_looks([tuning], tasks, workspace.layout)


def test_the_same_records_and_register_give_the_same_bytes(workspace: Workspace) -> None:
    """A report that is made anew has the same bytes, and another count changes them."""
    finished(workspace, "alpha", "ppo", "a2c")
    folder = workspace.folder / "reports" / "alpha"
    give(workspace.folder, *REPORT)
    first = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    give(workspace.folder, *REPORT)
    assert first == {path.name: path.read_bytes() for path in folder.iterdir()}
    finished(workspace, "beta", "dqn")
    give(workspace.folder, "show", "beta")
    give(workspace.folder, *REPORT)
    assert first != {path.name: path.read_bytes() for path in folder.iterdir()}


def test_partial_looks_leave_no_trace_in_a_report(workspace: Workspace, tmp_path: Path) -> None:
    """Whoever looked before all seeds were scored gets the report of whoever did not."""
    contexts = []
    for name in ("once", "twice"):
        layout = Layout(tmp_path / name)
        experiment = stored(layout, "alpha", configuration("ppo"), test=2)
        experiment.complete(0, 100.0)
        if name == "twice":
            card_context("alpha", None, Workspace(tmp_path, layout), enter=True)
        experiment.complete(1, 110.0)
        context = card_context("alpha", None, Workspace(tmp_path, layout), enter=True)
        assert context is not None
        contexts.append(context.evidence.looks)
    assert contexts[0].tasks == contexts[1].tasks
    assert 2 == len(read_looks(Layout(tmp_path / "twice")).looks)


def test_a_register_that_cannot_be_written_keeps_no_score_from_being_shown(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where looks cannot be entered, they are counted for the command, which says so."""
    finished(workspace, "alpha", "ppo", "a2c")
    monkeypatch.setattr("rlexp.store.registers.looks.PATIENCE", 0.0)
    with hold(workspace.layout.looks_lock, "the register of looks", now=0.0):
        line = looks_line(workspace, "compare", "alpha")
    assert line.startswith("2 configurations")
    assert "these looks count in this command only" in line
    assert not workspace.layout.looks.exists()


def test_a_damaged_register_keeps_no_score_from_being_shown(workspace: Workspace) -> None:
    """A folder in place of the register is said, and the scores are shown."""
    finished(workspace, "alpha", "ppo", "a2c")
    workspace.layout.looks.mkdir()
    assert "the register of looks cannot be read" in looks_line(workspace, "compare", "alpha")


def test_an_edited_register_is_refused_and_visible(workspace: Workspace) -> None:
    """`verify` fails on an edited register, and the comparison and the report name the edit."""
    finished(workspace, "alpha", "ppo", "a2c")
    give(workspace.folder, "compare", "alpha")
    assert "register of looks: 2 looks (head " in give(workspace.folder, "verify")
    text = workspace.layout.looks.read_text()
    workspace.layout.looks.write_text(text.replace('"label":"a2c"', '"label":"dqn"'))
    verified = rlexp(workspace.folder, "verify", "alpha")
    assert (1, True) == (verified.code, "broken chain: register of looks" in verified.out)
    assert "register of looks was changed" in looks_line(workspace, "compare", "alpha")
    assert "register of looks was changed" in give(workspace.folder, *REPORT).replace("\n", " ")


def test_a_cut_register_is_found_with_a_noted_head(workspace: Workspace) -> None:
    """A register without its last lines is refused where a head was noted before."""
    finished(workspace, "alpha", "ppo", "a2c")
    give(workspace.folder, "compare", "alpha")
    document = give_json(workspace.folder, "verification", "verify")
    head = document["looks"]["head"][:12]
    give(workspace.folder, "verify", "--looks-head", head)
    first = workspace.layout.looks.read_text().splitlines()[0]
    workspace.layout.looks.write_text(first + "\n")
    cut = rlexp(workspace.folder, "verify", "--looks-head", head)
    assert (1, True) == (cut.code, "rewritten, or cut" in cut.out)
    assert "1 configuration with test scores is not counted yet" in cut.out


def test_a_sweep_adds_the_winner_and_the_default(
    workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The winner and the default of a sweep are looks; its tuning and selection runs are none."""
    sweep = finished_sweep(workspace.folder, tmp_path_factory)
    give(workspace.folder, "show", "made_up")
    tested = {spec.fingerprint for spec in sweep.made if spec.phase is Phase.TEST}
    looks = read_looks(workspace.layout).looks
    assert tested == {look.configuration for look in looks}
    assert {(0, 1, 2)} == {look.seeds for look in looks}


def test_a_refused_comparison_is_no_look(workspace: Workspace) -> None:
    """A comparison of one label is refused, shows no score, and enters nothing."""
    finished(workspace, "alpha", "ppo")
    with pytest.raises(ConfigError, match="needs two labels"):
        give(workspace.folder, "compare", "alpha")
    assert not workspace.layout.looks.exists()


def test_tuning_scores_are_no_looks(workspace: Workspace) -> None:
    """Scores of the tuning phase are neither entered nor counted."""
    experiment = stored(workspace.layout, "alpha", configuration("ppo"), configuration("a2c"))
    for label in ("ppo", "a2c"):
        for seed in range(2):
            experiment.complete(seed, 10.0 + seed, label=label, phase=Phase.TUNING)
    text = give(workspace.folder, "compare", "alpha", "--phase", "tuning")
    assert ("Looks:" in text, workspace.layout.looks.exists()) == (False, False)
