"""Commands say whether a registered protocol is kept, and name every deviation."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import give, give_json, rlexp
from protocol_samples import LABELS, SETTINGS, registered_runs, registration
from quick_parts import quick_parts
from sealed_runs import edit, sealed
from stored_runs import STARTED, configuration, study

from rlexp.app.execution.verdict_reach import missing_reach
from rlexp.app.reading.protocols import alpha_of_plan
from rlexp.app.workspace import Workspace
from rlexp.errors import RecordError
from rlexp.protocol.seeds import Phase
from rlexp.records.registration import METRIC_DEFINITIONS
from rlexp.store.registers.protocols import enter_registration, read_protocols
from rlexp.store.runs import read_experiment

quick = pytest.fixture(autouse=True)(quick_parts)
DUEL = registration()
TITLE = f"duel (hash {DUEL.study.hash[:12]})"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """A workspace with one registration, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RLEXP_HOME", str(tmp_path / "home"))
    workspace = study(tmp_path)
    enter_registration(workspace.layout, DUEL)
    return workspace


def said(workspace: Workspace, *words: str) -> str:
    """What a command says about the protocol."""
    text = " ".join(give(workspace.folder, *words).split())
    return text.partition("Protocol: ")[2].partition(". ")[0]


def check(workspace: Workspace, *words: str) -> dict[str, Any]:
    """The only protocol in the card of a comparison."""
    card = give_json(workspace.folder, "comparison", "compare", *words)["card"]
    (protocol,) = card["protocols"]
    return dict(protocol)


def test_a_kept_protocol_is_named_by_every_command(workspace: Workspace) -> None:
    """`compare`, `show`, `report`, the page and JSON say that the protocol is kept."""
    registered_runs(workspace.layout, DUEL)
    assert f"{TITLE}: kept" == said(workspace, "compare", "duel")
    assert f"{TITLE}: kept" == said(workspace, "show", "duel")
    assert f"Protocol: {TITLE}: kept." in give(workspace.folder, "compare", "duel", "--full")
    assert f"Protocol: {TITLE}: kept." in give(workspace.folder, "show", "duel", "--full")
    assert f"Protocol: {TITLE}: kept." in give(
        workspace.folder, "report", "duel", "--set", "repetitions=50_000"
    )
    page = (workspace.folder / "reports/duel/report.html").read_text()
    assert f"{TITLE}: kept" in page
    assert DUEL.study.question in page
    kept = check(workspace, "duel")
    assert (True, [], 10, 10) == tuple(kept[k] for k in ("kept", "deviations", "runs", "ended"))
    assert (DUEL.study.hash, DUEL.root) == (kept["hash"], kept["root"])


def test_the_sealed_settings_decide(workspace: Workspace) -> None:
    """The sealed margin is used without being typed; an experiment without a protocol has none."""
    registered_runs(workspace.layout, DUEL)
    registered_runs(workspace.layout, DUEL, root=5, name="other")
    assert "Differences within ±20 are" in give(workspace.folder, "compare", "duel", "--full")
    assert "No margin was declared" in give(workspace.folder, "compare", "other", "--full")


@pytest.mark.parametrize(
    ("option", "deviation"),
    [
        (("--margin", "10"), "margin 10 instead of 20"),
        (("--alpha", "0.1"), "alpha 0.1 instead of 0.05"),
        (("--seed", "7"), "seed 7 instead of 0"),
        (("--set", "metric=[median]"), "metric median instead of iqm"),
    ],
    ids=str,
)
def test_another_setting_of_the_command_deviates(
    workspace: Workspace, option: tuple[str, str], deviation: str
) -> None:
    """Another margin, level, random seed or metric than the sealed one is named."""
    registered_runs(workspace.layout, DUEL)
    assert f"{TITLE}: deviates: {deviation}" == said(workspace, "compare", "duel", *option)


def test_a_changed_setting_of_the_workspace_does_not_deviate(workspace: Workspace) -> None:
    """The sealed metric and level win over a later `conf/report.yaml`."""
    registered_runs(workspace.layout, DUEL)
    folder = workspace.folder / "conf"
    folder.mkdir()
    settings = "defaults:\n  - metric: [mean, iqm]\n  - section: [verdicts]\n  - _self_\n"
    rest = {k: v for k, v in SETTINGS.items() if k not in {"metrics", "test"}}
    rest |= {"alpha": 0.2, "margin": "null", "power": 0.8}
    rest |= {"curve_repetitions": 2000, "curve_points": 100}
    settings += "".join(f"{key}: {value}\n" for key, value in rest.items())
    (folder / "report.yaml").write_text(settings)
    assert f"{TITLE}: kept" == said(workspace, "compare", "duel")


@pytest.fixture
def sealed_gap(workspace: Workspace) -> str:
    """A finished protocol whose metric, the optimality gap, was sealed with gamma 20; its title."""
    gap = {"_target_": "rlexp.metrics.optimality_gap.OptimalityGap", "gamma": 20.0}
    names = ["optimality_gap", "iqm"]
    settings = {**SETTINGS, "metrics": names, METRIC_DEFINITIONS: {"optimality_gap": gap}}
    of_gap = registration("gap", nonce="another beacon", settings=settings)
    enter_registration(workspace.layout, of_gap)
    registered_runs(workspace.layout, of_gap)
    return "gap (hash"


def test_a_metric_is_sealed_with_its_values(workspace: Workspace, sealed_gap: str) -> None:
    """The sealed gamma is used; another one of the command, also the packaged one, deviates."""
    text = said(workspace, "compare", "gap")
    assert text.startswith(sealed_gap)
    assert text.endswith("): kept")
    word = "metric.optimality_gap.gamma=1.0"
    text = said(workspace, "compare", "gap", "--set", word)
    assert text.endswith("deviates: metric.optimality_gap.gamma 1 instead of 20")


def test_a_sealed_metric_of_another_class_deviates(workspace: Workspace, sealed_gap: str) -> None:
    """A later `conf/metric` that names another class under the sealed name is named."""
    folder = workspace.folder / "conf/metric"
    folder.mkdir(parents=True)
    text = "optimality_gap:\n  _target_: rlexp.metrics.mean.Mean\n"
    (folder / "optimality_gap.yaml").write_text(text)
    shown = said(workspace, "compare", "gap")
    assert shown.startswith(sealed_gap)
    assert "metric.optimality_gap._target_ rlexp" in shown


@pytest.mark.parametrize(
    ("deviating", "deviation"),
    [
        ({"seeds": 3}, "3 of 5 seeds"),
        ({"seeds": 7}, "7 instead of 5 seeds"),
        ({"root": 8}, f"test seeds of root 8 instead of {DUEL.root}"),
        (
            {"configurations": [configuration(label, steps=200) for label in LABELS]},
            "budget 200 instead of 100",
        ),
        (
            {"configurations": [configuration(label) for label in (*LABELS, "sac")]},
            "with sac, not registered",
        ),
        (
            {"configurations": [configuration("ppo"), configuration("sac")]},
            "without a2c; with sac, not registered",
        ),
        (
            {
                "configurations": [
                    configuration("ppo"),
                    replace(configuration("sac"), label="a2c"),
                ]
            },
            "other settings of a2c",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_deviation_of_the_runs_is_named(
    workspace: Workspace, deviating: dict[str, Any], deviation: str
) -> None:
    """Another budget, number of seeds, root, label or configuration is named in every place."""
    registered_runs(workspace.layout, DUEL, **deviating)
    assert f"{TITLE}: deviates: {deviation}" == said(workspace, "compare", "duel")
    assert f"): deviates: {deviation}\n" in give(workspace.folder, "verify")


def test_another_failure_rule_deviates(workspace: Workspace) -> None:
    """Failed runs that count in another way than sealed are named."""
    worst = registration("worst", failures="worst", nonce="another beacon")
    enter_registration(workspace.layout, worst)
    registered_runs(workspace.layout, worst)
    assert "failures missing instead of worst" in said(workspace, "compare", "worst")


def test_a_part_of_the_labels_deviates(workspace: Workspace) -> None:
    """Whoever compares some of the labels only, or with other experiments, is named."""
    three = registration(
        "three", configurations=tuple(map(configuration, ("ppo", "a2c", "sac"))), nonce="12345678"
    )
    enter_registration(workspace.layout, three)
    registered_runs(workspace.layout, three)
    registered_runs(workspace.layout, DUEL)
    text = said(workspace, "compare", "three/ppo", "three/sac")
    assert text.endswith("deviates: compares 2 of 3 labels")
    assert "compared with runs of other experiments" in said(workspace, "compare", "three", "duel")


def test_runs_before_the_registration_are_named(workspace: Workspace) -> None:
    """A registration after its runs is a deviation, and a fault for `rlexp verify`."""
    late = registration("late", time=STARTED + 3600.0, nonce="another beacon")
    enter_registration(workspace.layout, late)
    registered_runs(workspace.layout, late)
    deviation = "10 of 10 runs started before the registration"
    assert said(workspace, "compare", "late").endswith(f"deviates: {deviation}")
    verified = rlexp(workspace.folder, "verify")
    assert 1 == verified.code
    assert f"fault: register of protocols: late: {deviation}" in verified.out


def test_a_copy_under_another_name_belongs_to_the_protocol(workspace: Workspace) -> None:
    """Whoever uses the derived seeds under another name is judged by the protocol."""
    registered_runs(workspace.layout, DUEL, seeds=4, name="copy")
    assert f"{TITLE}: deviates: 4 of 5 seeds" == said(workspace, "compare", "copy")


def test_other_configurations_on_the_sealed_seeds_are_counted(workspace: Workspace) -> None:
    """Configurations that were tried on the derived seeds and removed afterwards are named."""
    tried = [configuration(label) for label in ("sac", "td3")]
    registered_runs(workspace.layout, DUEL, tried, name="tried")
    give(workspace.folder, "show", "tried")
    give(workspace.folder, "rm", "tried", "--yes")
    registered_runs(workspace.layout, DUEL)
    text = said(workspace, "compare", "duel")
    deviation = "deviates: 2 other configurations were tried on its test seeds"
    assert text.endswith(deviation)
    assert f"): {deviation}\n" in give(workspace.folder, "verify")


def test_a_second_registration_of_the_study_is_counted(workspace: Workspace) -> None:
    """Whoever registers a study twice, with another nonce, is seen to have done so."""
    registered_runs(workspace.layout, DUEL)
    assert "registration" not in said(workspace, "compare", "duel")
    enter_registration(workspace.layout, registration("again", nonce="another beacon"))
    enter_registration(workspace.layout, registration("similar", question="Which is better?"))
    counted = "registration 1 of 3 on its task, 2 of them of this study"
    assert f"{TITLE[:-1]}, {counted}): kept" == said(workspace, "compare", "duel")
    third = check(workspace, "duel")
    assert (1, 3, 2) == tuple(third[k] for k in ("registration", "registrations", "same_study"))


def test_a_report_and_json_name_the_deviation(workspace: Workspace) -> None:
    """The notices of `rlexp report`, its page and the JSON documents hold the deviation."""
    registered_runs(workspace.layout, DUEL, seeds=3)
    assert f"{TITLE}: deviates: 3 of 5 seeds." in give(workspace.folder, "report", "duel")
    assert "3 of 5 seeds" in (workspace.folder / "reports/duel/report.html").read_text()
    protocol = check(workspace, "duel")
    assert (False, ["3 of 5 seeds"]) == (protocol["kept"], protocol["deviations"])


def test_a_report_is_made_anew_after_a_registration(workspace: Workspace) -> None:
    """A report that is written already changes with the register, and not without."""
    registered_runs(workspace.layout, DUEL)
    give(workspace.folder, "report", "duel")
    page = workspace.folder / "reports/duel/report.html"
    first = page.read_bytes()
    give(workspace.folder, "report", "duel")
    assert first == page.read_bytes()
    enter_registration(workspace.layout, registration("again", nonce="another beacon"))
    give(workspace.folder, "report", "duel")
    assert b"registration 1 of 2 on its task" in page.read_bytes()


def test_an_edited_register_is_said_and_found(workspace: Workspace) -> None:
    """Commands show scores and say that the register was changed; `rlexp verify` names the place."""
    registered_runs(workspace.layout, DUEL)
    register = workspace.layout.protocols
    register.write_text(register.read_text().replace('"seeds":5', '"seeds":3'))
    text = said(workspace, "compare", "duel")
    assert text.startswith(
        "the register of protocols was changed (line 1 cannot be read: duel: its"
    )
    assert "kept" not in text
    verified = rlexp(workspace.folder, "verify")
    assert 1 == verified.code
    assert "fault: register of protocols: line 1 cannot be read: duel: its hash" in verified.out


def test_a_register_that_cannot_be_read_keeps_no_score_from_being_shown(
    workspace: Workspace,
) -> None:
    """A folder in place of the register is named beside the scores."""
    registered_runs(workspace.layout, DUEL)
    workspace.layout.protocols.unlink()
    workspace.layout.protocols.mkdir()
    assert "cannot be read" in said(workspace, "compare", "duel")
    assert 1 == rlexp(workspace.folder, "verify").code


def test_a_rewritten_register_is_found_by_a_noted_head(workspace: Workspace) -> None:
    """A whole new register with another nonce is found by its head, and by its experiment's root."""
    registered_runs(workspace.layout, DUEL)
    head = read_protocols(workspace.layout).head
    assert head is not None
    give(workspace.folder, "verify", "--protocols-head", head[:12])
    workspace.layout.protocols.unlink()
    other = registration(nonce="a nonce of mine")
    enter_registration(workspace.layout, other)
    verified = rlexp(workspace.folder, "verify", "--protocols-head", head[:12])
    assert 1 == verified.code
    assert "the register was rewritten, or cut, since then" in verified.out
    assert f"of root {DUEL.root} instead of {other.root}" in said(workspace, "compare", "duel")


def test_looks_before_the_registration_are_found(workspace: Workspace) -> None:
    """A registration holds the head of the looks: looks before it, or a cut of them, are found."""
    hidden = registration("hidden", nonce="known beforehand")
    registered_runs(workspace.layout, hidden, name="trial")
    give(workspace.folder, "show", "trial")
    give(workspace.folder, "rm", "trial", "--yes")
    looks = give_json(workspace.folder, "verification", "verify")["looks"]["head"]
    enter_registration(workspace.layout, replace(hidden, looks=looks))
    verified = rlexp(workspace.folder, "verify")
    assert 1 == verified.code
    assert "hidden: its test seeds were looked at before its registration" in verified.out
    workspace.layout.looks.unlink()
    assert "hidden: the register of looks was rewritten" in rlexp(workspace.folder, "verify").out


def test_unfinished_runs_are_kept_so_far(workspace: Workspace) -> None:
    """While runs are missing, the protocol is kept so far, with their number."""
    runs = registered_runs(workspace.layout, DUEL, seeds=5)
    for seed in (3, 4):
        for file in sorted(runs.run(seed).folder.rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
    so_far = "kept so far, 8 of 10 runs have ended"
    assert f"{TITLE}: {so_far}" == said(workspace, "compare", "duel")
    assert f"): {so_far}\n" in rlexp(workspace.folder, "verify").out


def test_no_command_suggests_to_deviate(workspace: Workspace) -> None:
    """The next commands of a registered experiment add no seeds."""
    registered_runs(workspace.layout, DUEL)
    for words in (("show", "duel"), ("compare", "duel"), ("report", "duel")):
        text = give(workspace.folder, *words)
        assert "seeds.test=" not in text
        assert "--adaptive" not in text


def test_a_typed_setting_has_a_report_of_its_own(tmp_path: Path) -> None:
    """A typed default replaces the sealed value, so the report without it is not used again."""
    workspace = study(tmp_path)
    registered = registration(settings={**SETTINGS, "alpha": 0.3})
    enter_registration(workspace.layout, registered)
    registered_runs(workspace.layout, registered)
    quickly = ("report", "duel", "--set", "repetitions=50_000")
    assert ": kept." in give(workspace.folder, *quickly)
    typed = give(workspace.folder, *quickly, "--set", "alpha=0.05")
    assert "alpha 0.05 instead of 0.3" in typed
    assert "--set alpha=0.05" in typed.splitlines()[-1]


def test_a_plan_is_judged_at_the_sealed_level(workspace: Workspace) -> None:
    """Three seeds decide at a level of 0.3 that a protocol seals, and not at the usual one."""
    strict = registration("strict", seeds=3)
    mild = registration("mild", seeds=3, settings={**SETTINGS, "alpha": 0.3})
    for registered in (strict, mild):
        enter_registration(workspace.layout, registered)
        registered_runs(workspace.layout, registered, seeds=3)
    reach = [
        missing_reach(
            (spec for _, spec in experiment.specs(Phase.TEST)),
            alpha_of_plan(experiment, workspace.layout),
        )
        for experiment in (
            read_experiment(workspace.layout.experiment(name)) for name in ("strict", "mild")
        )
    ]
    assert "above 0.05" in str(reach[0])
    assert reach[1] is None


def test_a_changed_register_offers_no_further_seeds(workspace: Workspace) -> None:
    """A changed line may hide a protocol: no command adds seeds, and `--adaptive` is refused."""
    registered_runs(workspace.layout, DUEL)
    file = workspace.layout.protocols
    file.write_bytes(file.read_bytes().replace(b'"alpha":0.05', b'"alpha":0.06'))
    assert "--adaptive" not in give(workspace.folder, "show", "duel")
    with pytest.raises(RecordError, match="which a protocol may forbid"):
        rlexp(workspace.folder, "compare", "duel", "--adaptive", "--dry-run")


def test_a_registered_experiment_keeps_its_runs(workspace: Workspace) -> None:
    """`rlexp rm` refuses a protocol and its runs, and `rlexp verify` does not suggest it."""
    runs = registered_runs(workspace.layout, DUEL)
    run = runs.run(3).folder
    for target in ("duel", f"duel/{run.name}"):
        for words in ((target,), (target, "--yes")):
            with pytest.raises(
                RecordError, match="duel is a registered protocol and keeps its runs"
            ):
                rlexp(workspace.folder, "rm", *words)
    assert run.is_dir()


def test_no_removal_of_a_registered_run_is_suggested(workspace: Workspace) -> None:
    """`rlexp verify` suggests to remove a faulty run only where `rlexp rm` would do it."""
    runs = sealed(workspace.folder, DUEL.protocol)
    edit(runs.run(2).attempt(1).journal, "21.0", "91.0")
    verified = rlexp(workspace.folder, "verify", "duel")
    assert 1 == verified.code
    assert "edited" in verified.out
    assert "rlexp rm" not in verified.out
    workspace.layout.protocols.unlink()
    assert "rlexp rm" in rlexp(workspace.folder, "verify", "duel").out
    give(workspace.folder, "rm", "duel", "--yes")
    assert not runs.paths.folder.exists()
