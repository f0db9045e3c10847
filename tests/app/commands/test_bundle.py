"""`rlexp bundle` writes a study as one archive that says what it holds and what it lacks."""

import errno
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from bundled_studies import SHORT, quick_bundles, two_labels, unpack, verified
from command_line import give, give_json, rlexp
from in_full import long
from last_words import last_words
from quick_parts import quick_parts
from samples import part
from stored_runs import configuration, failed, stored
from stored_sweeps import finished_sweep

from rlexp.app.bundling.record_files import record_files
from rlexp.app.commands.exchange import bundle_reports
from rlexp.errors import HeldError, RecordError, RlexpError
from rlexp.protocol.spec import Parent
from rlexp.store.bundles.bundle_manifest import BundledReport
from rlexp.store.layout import Layout
from rlexp.store.locks.lease import hold
from rlexp.store.registers.ledger import read_ledger
from rlexp.store.runs import write_run

quick = pytest.fixture(autouse=True)(quick_parts)


without_figures = pytest.fixture(autouse=True)(quick_bundles)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with the experiment `alpha` of two labels with three runs each."""
    two_labels(tmp_path)
    return tmp_path


def names(archive: Path) -> list[str]:
    """The files of an archive."""
    with zipfile.ZipFile(archive) as opened:
        return opened.namelist()


def test_a_bundle_holds_what_a_paper_needs(folder: Path) -> None:
    """Records, registers, report with data, versions, container file and metadata are in the archive."""
    give(folder, "bundle", "alpha", *SHORT)
    listed = names(folder / "alpha.zip")
    assert "bundle.json" == listed[0]
    parts = {name.split("/")[0] for name in listed if not name.endswith(".whl")}
    assert parts == {
        *("bundle.json", "runs", "reports", "README.md", "Containerfile", "constraints.txt"),
        *("requirements.txt", "versions.json", "CITATION.cff", "ro-crate-metadata.json"),
    }
    assert {"runs/looks.jsonl", "runs/alpha/ledger.jsonl", "reports/alpha/report.json"} < {*listed}
    assert any(n.startswith("reports/alpha/data/") and n.endswith(".csv") for n in listed)
    assert not any("model.zip" in name or "log.txt" in name for name in listed)


def test_the_same_records_give_the_same_bytes(folder: Path, tmp_path_factory: Any) -> None:
    """A second bundle is unchanged, and one from a copy of the records elsewhere has the same sum."""
    first = give_json(folder, "bundle", "bundle", "alpha", *SHORT)
    again = give_json(folder, "bundle", "bundle", "alpha", *SHORT)
    assert (True, False, first["sha256"]) == (
        again["unchanged"],
        again["written"],
        again["sha256"],
    )
    other = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(folder / "runs", other / "runs")
    copy = give_json(other, "bundle", "bundle", "alpha", "--output", "new/name.zip", *SHORT)
    assert first["sha256"] == copy["sha256"]


def test_another_file_at_the_output_is_kept(folder: Path) -> None:
    """A file with other content is replaced only with --force."""
    (folder / "alpha.zip").write_text("mine")
    with pytest.raises(RlexpError, match="exists with other content"):
        rlexp(folder, "bundle", "alpha", *SHORT)
    assert "mine" == (folder / "alpha.zip").read_text()
    give(folder, "bundle", "alpha", "--force", *SHORT)
    assert zipfile.is_zipfile(folder / "alpha.zip")


def test_a_bundle_can_be_a_folder(folder: Path) -> None:
    """A folder holds the same files as the archive; another folder at its name is never replaced."""
    give(folder, "bundle", "alpha", "--output", "artefact", *SHORT)
    give(folder, "bundle", "alpha", *SHORT)
    written = [p for p in (folder / "artefact").rglob("*") if p.is_file()]
    assert sorted(names(folder / "alpha.zip")) == sorted(
        p.relative_to(folder / "artefact").as_posix() for p in written
    )
    assert 0 == verified(folder, "./artefact")[0]
    give(folder, "bundle", "alpha", "--output", "artefact", "--force", *SHORT)
    (folder / "mine").mkdir()
    with pytest.raises(RlexpError, match="mine exists"):
        rlexp(folder, "bundle", "alpha", "--output", "mine", "--force", *SHORT)


def test_policies_come_only_when_asked_for(folder: Path) -> None:
    """Without --models their sums are listed; with it they are in the archive and are checked."""
    plain = give_json(folder, "bundle", "bundle", "alpha", *SHORT)
    assert 6 * len("policy alpha ppo 0") == plain["left_out"]["policies"]
    full = give_json(folder, "bundle", "bundle", "alpha", "--models", "-o", "full.zip", *SHORT)
    assert "policies" not in full["left_out"]
    assert 6 == sum(name.endswith("model.zip") for name in names(folder / "full.zip"))
    code, lines = verified(folder, "full.zip")
    assert (0, []) == (code, [line for line in lines if line.startswith("left out")])


def test_a_policy_that_is_gone_for_another_reason_is_a_fault(folder: Path) -> None:
    """A bundle with policies from which one is taken out is not what was written."""
    give(folder, "bundle", "alpha", "--models", "-o", "bundle", *SHORT)
    next((folder / "bundle").rglob("model.zip")).unlink()
    code, lines = verified(folder)
    assert 1 == code
    assert any(line.startswith("missing: alpha/") and "model.zip" in line for line in lines)


def test_an_unpacked_bundle_is_a_workspace(folder: Path) -> None:
    """`ls`, `show`, `compare`, `report` and `verify` work in it, and it still verifies afterwards."""
    give(folder, "bundle", "alpha", "-o", "bundle", *SHORT)
    bundle = folder / "bundle"
    assert "alpha" in give(bundle, "ls")
    assert "6 of 6" in give(bundle, "show", "alpha")
    give(bundle, "compare", "alpha")
    page = (bundle / "reports/alpha/report.html").read_bytes()
    give(bundle, "report", "alpha", *SHORT)
    assert page == (bundle / "reports/alpha/report.html").read_bytes()
    assert "6 of 6 attempts match" in give(bundle, "verify")
    assert 0 == verified(folder)[0]
    give(bundle, "bundle", "alpha", "-o", "again.zip", *SHORT)
    assert 0 == verified(bundle, "again.zip")[0]


def test_failed_and_missing_runs_are_named(tmp_path: Path) -> None:
    """The command, the page and JSON say how many runs failed and are missing."""
    experiment = stored(Layout(tmp_path / "runs"), "alpha", test=3)
    experiment.complete(0, 1.0)
    experiment.attempt(1, failed())
    (line, *_) = give(tmp_path, "bundle", "alpha", "-o", "bundle", *SHORT).splitlines()
    assert "1 of 3 runs with a score, 1 failed, 1 not finished" in line
    assert "1 failed, 1 not finished" in (tmp_path / "bundle/README.md").read_text()
    assert 0 == verified(tmp_path)[0]


def test_several_experiments_have_reports_of_their_own_and_one_together(folder: Path) -> None:
    """The archive has three reports, and the one of both compares them."""
    two_labels(folder, "beta")
    result = give_json(folder, "bundle", "bundle", "alpha", "beta", *SHORT)
    assert ["reports/alpha", "reports/beta", "reports/alpha+beta"] == result["reports"]
    assert folder / "alpha+beta.zip" == Path(result["output"])
    assert 0 == verified(folder, "alpha+beta.zip")[0]


def test_experiments_that_cannot_be_compared_are_still_bundled(folder: Path) -> None:
    """Runs of another budget give no report together; the reason is said."""
    other = stored(Layout(folder / "runs"), "longer", configuration("ppo", steps=200), test=2)
    other.complete(0, 1.0)
    other.complete(1, 2.0)
    result = give_json(folder, "bundle", "bundle", "alpha", "longer", *SHORT)
    together = [r for r in result["remarks"] if r.startswith("there is no report of all")]
    assert len(result["reports"]) + len(together) == 3
    assert 0 == verified(folder, "alpha+longer.zip")[0]


def test_a_parent_in_another_experiment_is_named(folder: Path) -> None:
    """Runs that continue runs outside of the bundle are counted, until that experiment is named too."""
    alpha = two_labels(folder, "first")
    extension = stored(Layout(folder / "runs"), "second", configuration(steps=200), test=1)
    spec = extension.spec(0).again(
        extension.spec(0).phase, 0, 0, Parent(run=alpha.spec(0).id, step=50, digest="0" * 64)
    )
    write_run(extension.paths.run(spec.name), spec)
    extension.complete(0, 1.0)
    result = give_json(folder, "bundle", "bundle", "second", *SHORT)
    text = "1 run that second continues is not in the bundle: name that experiment too"
    assert text in result["remarks"]
    both = give_json(folder, "bundle", "bundle", "second", "first", *SHORT)
    assert text not in both["remarks"]


def test_a_dataset_is_named_and_not_bundled(folder: Path) -> None:
    """The page and the result name the dataset from which runs start, with its digest."""
    dataset = part(
        "dataset", "minari", "rlexp.datasets.minari.Minari", id="x/y-v0", digest="ab" * 32
    )
    study = stored(
        Layout(folder / "runs"), "data", replace(configuration(), dataset=dataset), test=1
    )
    study.complete(0, 1.0)
    result = give_json(folder, "bundle", "bundle", "data", *SHORT)
    assert "the dataset x/y-v0 (sha256 abababababab) is not in the bundle" in result["remarks"]
    page = (unpack(folder / "data.zip", folder / "opened") / "README.md").read_text()
    assert (
        f"- The dataset x/y-v0, from which runs start. The sha256 of its content (`dataset.digest`) is `{'ab' * 32}`"
        in page
    )
    assert 0 == verified(folder, "data.zip")[0]


def test_what_is_declared_is_in_the_metadata(folder: Path) -> None:
    """Title, author with ORCID, license and day are in CITATION.cff and in the RO-Crate."""
    declared = ("--title", "A: study", "--author", "Ada L <0000-0002-1825-0097>", "--author", "Bo")
    more = ("--license", "CC-BY-4.0", "--published", "2027-01-31")
    give(folder, "bundle", "alpha", "-o", "bundle", *declared, *more, *SHORT)
    citation = yaml.safe_load((folder / "bundle/CITATION.cff").read_text())
    orcid = "https://orcid.org/0000-0002-1825-0097"
    assert [{"name": "Ada L", "orcid": orcid}, {"name": "Bo"}] == citation["authors"]
    assert ("A: study", "CC-BY-4.0", "2027-01-31") == (
        citation["title"],
        citation["license"],
        citation["date-released"],
    )
    root = entities(folder / "bundle")["./"]
    assert ("A: study", "2027-01-31") == (root["name"], root["datePublished"])
    assert {"@id": "https://spdx.org/licenses/CC-BY-4.0"} == root["license"]
    assert [{"@id": orcid}, {"@id": "#author-2"}] == root["author"]
    assert 0 == verified(folder)[0]


def entities(bundle: Path) -> dict[str, dict[str, Any]]:
    """The entities of the RO-Crate by their identifiers."""
    crate = json.loads((bundle / "ro-crate-metadata.json").read_text())
    return {entity["@id"]: entity for entity in crate["@graph"]}


def test_the_crate_is_whole(folder: Path) -> None:
    """Every reference of the RO-Crate is described, every part exists, and no part is left out."""
    give(folder, "bundle", "alpha", "-o", "bundle", "--license", "MIT", *SHORT)
    bundle = folder / "bundle"
    crate = entities(bundle)
    descriptor = crate["ro-crate-metadata.json"]
    assert {"@id": "https://w3id.org/ro/crate/1.1"} == descriptor["conformsTo"]
    references = {
        value["@id"]
        for entity in crate.values()
        for values in entity.values()
        for value in (values if isinstance(values, list) else [values])
        if isinstance(value, dict)
    }
    assert references - {"https://w3id.org/ro/crate/1.1"} <= crate.keys()
    parts = {part["@id"] for part in crate["./"]["hasPart"]}
    assert all((bundle / part).exists() for part in parts)
    outside = {
        path.relative_to(bundle).as_posix()
        for path in bundle.rglob("*")
        if path.is_file() and "runs" not in path.relative_to(bundle).parts
    }
    assert outside - {"ro-crate-metadata.json"} <= parts


def test_a_citation_file_of_the_workspace_is_used(folder: Path) -> None:
    """CITATION.cff is copied, and its title and authors are in the crate; a broken one is one line."""
    text = (
        "cff-version: 1.2.0\ntitle: Mine\nlicense: MIT\ndate-released: 2027-02-03\nauthors:\n"
        "  - family-names: Love\n    given-names: Ada\n"
    )
    (folder / "CITATION.cff").write_text(text)
    give(folder, "bundle", "alpha", "-o", "bundle", *SHORT)
    assert text == (folder / "bundle/CITATION.cff").read_text()
    crate = entities(folder / "bundle")
    assert ("Mine", "2027-02-03") == (crate["./"]["name"], crate["./"]["datePublished"])
    assert "Ada Love" == crate["#author-1"]["name"]
    assert 0 == verified(folder)[0]
    (folder / "CITATION.cff").write_text("title: [")
    with pytest.raises(RlexpError, match=r"CITATION\.cff cannot be read"):
        rlexp(folder, "bundle", "alpha", "-o", "other", *SHORT)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--author", "Ada <someone>"), "is no author"),
        (("--license", "see file"), "is no SPDX identifier"),
        (("--published", "31.1.2027"), "is no day"),
        (("--published", "2027-02-31"), "is no day"),
        (("--published", "20270131"), "is no day"),
        (("--output", "runs/alpha.zip"), "inside the folder of the records"),
        (("--phase", "tset"), "there is no phase 'tset'"),
        (("--set", "nothing=1"), "nothing"),
        (("--output", "."), "inside the folder of the records"),
        (("--output", "alpha.tar.gz"), r"no name of a zip archive: name it alpha\.zip"),
        (("--code",), "git cannot pack the repository"),
    ],
)
def test_bad_options_are_refused(folder: Path, words: tuple[str, ...], message: str) -> None:
    """A wrong option is one line, and nothing is written."""
    before = sorted(folder.iterdir())
    with pytest.raises(RlexpError, match=message):
        rlexp(folder, "bundle", "alpha", *SHORT, *words)
    assert before == sorted(folder.iterdir())


def test_an_experiment_without_runs_is_refused(tmp_path: Path) -> None:
    """There is nothing to bundle before the first run."""
    stored(Layout(tmp_path / "runs"))
    with pytest.raises(RecordError, match="has no run yet"):
        rlexp(tmp_path, "bundle", "alpha")


def test_an_experiment_in_use_is_refused(folder: Path) -> None:
    """While a command drives the experiment, its records are not copied."""
    paths = Layout(folder / "runs").experiment("alpha")
    with (
        hold(paths.lock, "alpha", now=time.time()),
        pytest.raises(HeldError, match="at this moment"),
    ):
        rlexp(folder, "bundle", "alpha", *SHORT)


def test_a_dry_run_writes_nothing(folder: Path) -> None:
    """The plan has the sizes of the records, and neither an archive nor a register appears."""
    before = sorted(p.name for p in folder.rglob("*") if not p.name.startswith("."))
    result = give_json(folder, "bundle", "bundle", "alpha", "--dry-run")
    assert (False, None, 6) == (
        result["written"],
        result["sha256"],
        result["experiments"][0]["scored"],
    )
    assert before == sorted(p.name for p in folder.rglob("*") if not p.name.startswith("."))


def test_the_command_of_a_dry_run_has_every_option(folder: Path) -> None:
    """The suggested command, pasted, writes the bundle of the plan; an empty kind is not left out."""
    words = ("-o", "new.zip", "--title", "It's", "--author", "Ada", "--license", "MIT", "--models")
    more = ("--published", "2027-01-31", "--phase", "test", "--level", "0.9", "--force", *SHORT)
    plan = give_json(folder, "bundle", "bundle", "alpha", *words, *more, "--dry-run")
    assert "logs" not in plan["left_out"]
    first = give_json(folder, "bundle", "bundle", "alpha", *words, *more)
    (suggested,) = plan["next"]
    pasted = give_json(folder, "bundle", *shlex.split(suggested["command"])[1:])
    assert (first["sha256"], True) == (pasted["sha256"], pasted["unchanged"])


NO_RECORDS = {
    *("checkpoints", "replay", "parent", "log.txt", "model.zip", "normalisation.npz", "policies"),
    *("configuration.json", "results.jsonl", "files", "progress.bin", "stop", "scoring-orders"),
    *(
        "scoring-answers",
        "optuna.journal",
        "trackers",
        "orders",
        "jobs",
        "prior_data",
        "experience",
    ),
}
"""Files and folders of an experiment that are in no bundle: they are large, or no record."""


def test_every_record_is_bundled(tmp_path: Path) -> None:
    """Each file that the layout names is in a bundle, or is one of those that are never in it."""
    paths = Layout(tmp_path / "runs").experiment("alpha")
    run = paths.run("ppo-test-0-0123456789")
    named: set[Path] = set()
    for of in (run.attempt(1), run, paths):
        of.folder.mkdir(parents=True, exist_ok=True)
        values = [getattr(of, n) for n, v in vars(type(of)).items() if isinstance(v, property)]
        named |= {p for p in values if isinstance(p, Path) and not p.name.startswith(".")}
    expected = {p for p in named if p.name not in NO_RECORDS}
    for path in expected:
        path.touch()
    assert len(expected) > 12
    assert {p.relative_to(paths.folder).as_posix() for p in expected} == {
        *record_files(paths, models=False).bundled
    }


def test_a_report_without_figures_verifies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Matplotlib, a report that draws no figure is written again with the same bytes."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("rlexp.app.commands.exchange.bundle.can_draw", bundle_reports.can_draw)
    give(folder, "bundle", "alpha", "--set", "section=[provenance]")
    assert not any("/figures/" in name for name in names(folder / "alpha.zip"))
    code, lines = verified(folder, "alpha.zip")
    assert 0 == code, lines


def test_an_edited_register_is_named(folder: Path) -> None:
    """Where a register has a fault, the exit code is 1, and a sentence says which."""
    give(folder, "show", "alpha")
    looks = Layout(folder / "runs").looks
    looks.write_text(looks.read_text().replace('"mean":', '"mean":1', 1))
    printed = rlexp(folder, "bundle", "alpha", *SHORT)
    assert 1 == printed.code
    assert "not as written: the register of looks: 'rlexp verify' says what differs" in printed.out


def test_a_secret_in_a_record_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record with the value of a secret variable does not become public; the file is named."""
    alpha = Layout(folder / "runs").experiment("alpha")
    alpha.runs()[0].attempts()[0].patch.write_text("+key = 'hunter2hunter2hunter2'\n")
    monkeypatch.setenv("WANDB_API_KEY", "hunter2hunter2hunter2")
    with pytest.raises(RecordError, match=r"diff\.patch holds the value of a secret"):
        rlexp(folder, "bundle", "alpha", *SHORT)
    assert not (folder / "alpha.zip").exists()


def test_no_path_of_the_machine_is_added(folder: Path) -> None:
    """What is written beside the records names neither the workspace nor a temporary folder."""
    give(folder, "bundle", "alpha", "-o", "bundle", *SHORT)
    files = [p for p in (folder / "bundle").rglob("*") if p.is_file() and p.suffix != ".whl"]
    assert [] == [p for p in files if str(folder).encode() in p.read_bytes()]


def test_records_with_faults_are_bundled_and_named(folder: Path) -> None:
    """The exit code is 1, and the bundle's own check finds the same fault."""
    run = Layout(folder / "runs").experiment("alpha").runs()[0]
    text = run.attempts()[0].journal.read_text()
    run.attempts()[0].journal.write_text(text.replace("17", "18", 1))
    printed = rlexp(folder, "bundle", "alpha", *SHORT)
    assert 1 == printed.code
    assert "1 record of alpha not as written" in printed.out
    assert 1 == verified(folder, "alpha.zip")[0]


def test_a_full_disk_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without space, the command names the reason, and leaves neither an archive nor its parts."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("rlexp.app.commands.exchange.bundle.write_archive", full)
    with pytest.raises(RlexpError, match=r"alpha\.zip cannot be written: No space left on device"):
        rlexp(folder, "bundle", "alpha", *SHORT)
    assert ["runs"] == [path.name for path in folder.iterdir()]


KILLED = """
import os, signal, sys
from rlexp.app.commands.exchange import bundle as command
from rlexp.app.workspace import Workspace
write = command.write_archive
def killed(target, folder, paths):
    write(target, folder, paths)
    os.kill(os.getpid(), signal.SIGKILL)
command.write_archive = killed
command.can_draw = lambda: False
request = command.BundleRequest(experiments=("alpha",), overrides=(sys.argv[1],))
command.bundle(request, Workspace.here())
"""


def test_a_kill_leaves_no_half_archive(folder: Path) -> None:
    """After SIGKILL there is no archive; the next command removes what is left and writes it."""
    words = [sys.executable, "-c", KILLED, SHORT[1]]
    assert -9 == subprocess.run(words, cwd=folder, check=False, timeout=120).returncode
    assert not (folder / "alpha.zip").exists()
    assert any(p.name.startswith(".rlexp-bundle-") for p in folder.iterdir())
    give(folder, "bundle", "alpha", *SHORT)
    assert ["alpha.zip", "runs"] == sorted(p.name for p in folder.iterdir())
    assert 0 == verified(folder, "alpha.zip")[0]


def test_figures_are_bundled_and_drawn_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Matplotlib, PDF and SVG are in the bundle; a replaced picture is found."""
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("rlexp.app.commands.exchange.bundle.can_draw", bundle_reports.can_draw)
    give(folder, "bundle", "alpha", "-o", "bundle", *SHORT)
    pictures = sorted((folder / "bundle/reports/alpha/figures").iterdir())
    assert {".pdf", ".svg"} == {p.suffix for p in pictures}
    assert 0 == verified(folder)[0]


def test_the_code_of_the_study_comes_with_an_option(folder: Path) -> None:
    """With --code, the repository is in the archive and `git fetch` reads it."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "Begin")):
        subprocess.run([*git, *words], cwd=folder, check=True)
    give(folder, "bundle", "alpha", "--code", *SHORT)
    bundle = unpack(folder / "alpha.zip", folder / "unpacked")
    for fetching in (("init", "-q"), ("fetch", "-q", "code.bundle", "HEAD")):
        subprocess.run([*git, *fetching], cwd=bundle, check=True)
    assert "code.bundle HEAD" in (bundle / "Containerfile").read_text()
    assert 0 == verified(folder, "alpha.zip")[0]


def test_a_sweep_is_bundled_with_its_trials_and_its_choice(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Trials and selection are in the archive, and its records are judged as those of the workspace."""
    finished_sweep(tmp_path, tmp_path_factory)
    (name,) = [p.name for p in Layout(tmp_path / "runs").experiments()]
    # The made-up runs have equal journals, which are called copies of each other.
    (before,) = give_json(tmp_path, "verification", "verify", name, code=1)["experiments"]
    give(tmp_path, "bundle", name, *SHORT, code=1)
    listed = names(tmp_path / f"{name}.zip")
    assert {f"runs/{name}/trials.jsonl", f"runs/{name}/selection.json"} < {*listed}
    assert not any("optuna" in path for path in listed)
    checked = give_json(tmp_path, "bundle-verification", "verify", f"{name}.zip", code=1)
    (after,) = checked["experiments"]
    assert {**before, "next": []} == after
    assert [] == [finding for finding in checked["findings"] if finding["fault"]]


def test_imported_runs_are_bundled(tmp_path: Path) -> None:
    """Runs of another tool have no versions, which is said, and verify like others."""
    rows = [f"{label},CartPole-v1,{seed},9,{seed + 1.5}" for label in "ab" for seed in range(3)]
    (tmp_path / "scores.csv").write_text("\n".join(["label,task,seed,step,return", *rows]) + "\n")
    words = ("import", "scores.csv", "--experiment", "other", "--steps-unit", "environment")
    give(tmp_path, *words)
    result = give_json(tmp_path, "bundle", "bundle", "other", *SHORT)
    assert 6 == result["experiments"][0]["scored"]
    assert 0 == verified(tmp_path, "other.zip")[0]


def test_a_hundred_runs_take_a_small_multiple_of_their_report(tmp_path: Path) -> None:
    """Copying, checking and packing 100 runs takes about five times as long as a short report of them."""
    two_labels(tmp_path, runs=50)
    give(tmp_path, "report", "alpha", *SHORT)
    started = time.process_time()
    workspace = bundle_reports.unpacked_workspace(tmp_path)
    asked = BundledReport("reports/alpha", ("alpha",), "", (SHORT[1],))
    computed = bundle_reports.compute_bundled_report(asked, workspace)
    bundle_reports.render_bundled_report(computed, linked=False, drawn=False)
    reporting = time.process_time() - started
    started = time.process_time()
    assert 0 == rlexp(tmp_path, "bundle", "alpha", *SHORT).code
    assert time.process_time() - started < 20 * reporting
    assert len(names(tmp_path / "alpha.zip")) > 400


@long
@pytest.mark.timeout(3600)
def test_the_steps_of_the_container_file_work(tmp_path: Path) -> None:
    """In a new environment, the versions are installed, the bundle is verified, a run is repeated."""
    words = (
        "algorithm=a2c",
        "environment=cartpole",
        "budget.steps=512",
        "budget.final_episodes=5",
    )
    give(tmp_path, *last_words("run", *words, "experiment=paper", "seeds.test=2"))
    give(tmp_path, "bundle", "paper", "-o", "study")
    study = tmp_path / "study"
    environment = {k: v for k, v in os.environ.items() if k != "RLEXP_RUNS"}
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "new"], check=True)
    environment["PATH"] = f"{tmp_path / 'new/bin'}:{environment['PATH']}"
    lines = (study / "Containerfile").read_text().splitlines()
    # Without an engine for containers, the steps after the base image and its packages are executed.
    steps = [line.removeprefix("RUN ") for line in lines if line.startswith("RUN ")][1:]
    (last,) = [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD ")]
    assert ["pip install", "rlexp verify"] == [step[:12].strip()[:12] for step in steps][:2]
    for step in [*steps, shlex.join(last)]:
        subprocess.run(step, shell=True, cwd=study, env=environment, check=True)


def test_the_heads_are_those_of_the_ledgers(folder: Path) -> None:
    """The result, the page and the manifest have the head that `rlexp verify` prints."""
    result = give_json(folder, "bundle", "bundle", "alpha", "-o", "bundle", *SHORT)
    ledger = read_ledger(Layout(folder / "runs").experiment("alpha"))
    assert ledger is not None
    manifest = json.loads((folder / "bundle/bundle.json").read_text())
    assert ledger.head == result["experiments"][0]["head"] == manifest["ledgers"][0]["head"]
    assert str(ledger.head)[:12] in (folder / "bundle/README.md").read_text()
