"""`rlexp verify BUNDLE` finds what was changed in a bundle, with nothing but the bundle."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from bundled_studies import (
    SHORT,
    quick_bundles,
    replace_text,
    sum_again,
    two_labels,
    unpack,
    verified,
)
from command_line import give, give_json, rlexp
from jsonschema import Draft202012Validator
from protocol_samples import registered_runs, registration
from quick_parts import quick_parts
from stored_runs import STARTED

from rlexp.app.commands.exchange.verify_bundle import ReportDifference
from rlexp.app.commands.setup.schemas import list_schemas
from rlexp.errors import RecordError
from rlexp.store.layout import Layout
from rlexp.store.ledger_writer import LedgerWriter
from rlexp.store.registers.ledger import read_ledger
from rlexp.store.registers.protocols import enter_registration

quick = pytest.fixture(autouse=True)(quick_parts)
quicker = pytest.fixture(autouse=True)(quick_bundles)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of an experiment of two labels, without figures."""
    folder = tmp_path_factory.mktemp("study")
    two_labels(folder)
    return bundled(folder, "alpha")


def bundled(folder: Path, name: str) -> Path:
    """Write the archive of an experiment."""
    with pytest.MonkeyPatch.context() as patch:
        quick_bundles(patch)
        give(folder, "bundle", name, *SHORT)
    return folder / f"{name}.zip"


@pytest.fixture
def bundle(archive: Path, tmp_path: Path) -> Path:
    """The unpacked bundle in an empty folder."""
    return unpack(archive, tmp_path / "bundle")


def first_journal(bundle: Path) -> Path:
    """A journal of the bundle."""
    return min(bundle.glob("runs/*/*/attempts/1/events.jsonl"))


def edit_score(bundle: Path) -> None:
    """Change a return of a final evaluation."""
    text = first_journal(bundle).read_text()
    first_journal(bundle).write_text(text.replace('"returns":[', '"returns":[7', 1))


def edit_a_number(bundle: Path) -> None:
    """Change an estimate in the report."""
    path = bundle / "reports/alpha/report.json"
    document = json.loads(path.read_text())
    estimate = next(_estimates(document))
    estimate["estimate"] += 1
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def _estimates(value: object) -> Iterator[dict[str, float]]:
    if isinstance(value, dict):
        if isinstance(value.get("estimate"), float):
            yield value
        for inner in value.values():
            yield from _estimates(inner)
    if isinstance(value, list):
        for inner in value:
            yield from _estimates(inner)


def edit_data_of_a_figure(bundle: Path) -> None:
    """Change a cell of a table of data."""
    path = next(
        p for p in sorted(bundle.glob("reports/alpha/data/*.csv")) if "ppo" in p.read_text()
    )
    replace_text(path, "ppo", "a2c")


def edit_page(bundle: Path) -> None:
    """Change a word of the page."""
    replace_text(bundle / "reports/alpha/report.html", "ppo", "ppo2")


def edit_container(bundle: Path) -> None:
    """Let the container file do something else."""
    replace_text(bundle / "Containerfile", "RUN rlexp verify .", "RUN true")


def remove_run(bundle: Path) -> None:
    """Remove a run."""
    shutil.rmtree(first_journal(bundle).parents[2])


def edit_look(bundle: Path) -> None:
    """Change the mean of a look."""
    replace_text(bundle / "runs/looks.jsonl", '"mean":', '"mean":1')


def remove_look(bundle: Path) -> None:
    """Remove the first look."""
    path = bundle / "runs/looks.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))


def edit_ledger(bundle: Path) -> None:
    """Change an ending in the ledger."""
    replace_text(bundle / "runs/alpha/ledger.jsonl", '"completed"', '"failed"')


def add_run(bundle: Path) -> None:
    """Copy a run under another name."""
    run = first_journal(bundle).parents[2]
    shutil.copytree(run, run.with_name("ppo-test-9-0123456789"))


def add_report_file(bundle: Path) -> None:
    """Add a figure that the report does not have."""
    (bundle / "reports/alpha/figures").mkdir()
    (bundle / "reports/alpha/figures/best.svg").write_text("<svg/>")


def drop_report(bundle: Path) -> None:
    """Remove the report, so that no number is compared."""
    shutil.rmtree(bundle / "reports")


ATTACKS: list[tuple[Callable[[Path], object], str]] = [
    (edit_score, "edited: alpha/"),
    (edit_a_number, "other numbers: reports/alpha/report.json: "),
    (edit_data_of_a_figure, "not what follows: reports/alpha/data/"),
    (edit_page, "not what follows: reports/alpha/report.html"),
    (edit_container, "not what follows: Containerfile"),
    (remove_run, "missing: alpha/"),
    (edit_look, "broken chain: register of looks: line"),
    (remove_look, "broken chain: register of looks: line 1 does not follow"),
    (edit_ledger, "broken chain: alpha: line"),
    (add_run, "copied: alpha/ppo-test-9"),
    (drop_report, "not computed: the numbers of reports/alpha"),
]


def test_an_intact_bundle_has_no_fault(bundle: Path, archive: Path, tmp_path: Path) -> None:
    """The archive and its folder have exit code 0; every number is computed again and equal."""
    code, lines = verified(tmp_path)
    assert (0, "The bundle is what was written") == (code, lines[-1])
    document = give_json(tmp_path, "bundle-verification", "verify", str(archive))
    (schema,) = [r.json_schema for r in list_schemas().rows if r.name == "bundle-verification"]
    printed = rlexp(tmp_path, "verify", str(archive), "--json").content
    assert [] == [str(error) for error in Draft202012Validator(schema).iter_errors(printed)]
    (report,) = document["reports"]
    assert report["numbers"] == report["equal"] > 50
    assert (True, []) == (document["faultless"], [f for f in document["findings"] if f["fault"]])
    assert bundle.is_dir()


@pytest.mark.parametrize(("attack", "finding"), ATTACKS)
def test_a_changed_file_is_found_by_its_sum_and_without_it(
    bundle: Path, tmp_path: Path, attack: Callable[[Path], object], finding: str
) -> None:
    """A change is named as edited; with sums that were written again, what it contradicts is named."""
    attack(bundle)
    code, lines = verified(tmp_path)
    assert 1 == code
    assert any(line.startswith(("edited: ", "missing: ", "added: ")) for line in lines)
    sum_again(bundle)
    code, lines = verified(tmp_path)
    assert (1, "The bundle has faults") == (code, lines[-1])
    assert [line for line in lines if line.startswith(finding)], lines


def test_a_file_that_rlexp_does_not_write_is_a_fault(bundle: Path, tmp_path: Path) -> None:
    """Also with its sum in the manifest; beside the manifest, it is a remark."""
    (bundle / "notes.txt").write_text("mine")
    code, lines = verified(tmp_path)
    assert (0, ["remark: notes.txt is no file of the bundle"]) == (
        code,
        [line for line in lines if "notes" in line],
    )
    sum_again(bundle)
    code, lines = verified(tmp_path)
    assert (1, True) == (code, "added: notes.txt is no file that rlexp writes" in lines)


def test_a_report_that_the_manifest_drops_is_missed(bundle: Path, tmp_path: Path) -> None:
    """Without a report there would be nothing to compare, so that this is a fault."""
    shutil.rmtree(bundle / "reports")
    sum_again(bundle, reports=[])
    code, lines = verified(tmp_path)
    assert (1, True) == (code, "missing: the bundle has no report of alpha" in lines)


def test_other_versions_in_the_manifest_excuse_nothing(bundle: Path, tmp_path: Path) -> None:
    """A forger who claims another version of NumPy has the fault named all the same."""
    edit_data_of_a_figure(bundle)
    sum_again(bundle, versions={"numpy": "0.1"})
    code, lines = verified(tmp_path)
    assert 1 == code
    assert any(line.startswith("not what follows: reports/alpha/data/") for line in lines)
    assert any("written with" in line and "numpy 0.1" in line for line in lines)


def test_a_study_that_was_made_up_as_a_whole_is_found_by_a_noted_head(
    archive: Path, tmp_path: Path
) -> None:
    """Consistent records with other scores verify; the head that was published shows them."""
    study = archive.parent
    ledger = read_ledger(Layout(study / "runs").experiment("alpha"))
    assert ledger is not None
    head = str(ledger.head)
    assert 0 == verified(tmp_path, str(archive), "--head", head[:12])[0]
    forged = tmp_path / "forged"
    two_labels(forged, runs=2)
    other = bundled(forged, "alpha")
    assert 0 == verified(forged, "alpha.zip")[0]
    code, lines = verified(forged, "alpha.zip", "--head", head[:12])
    expected = f"other head: no ledger of the bundle has a line with the sum {head[:12]}"
    assert (1, True) == (code, any(line.startswith(expected) for line in lines))
    assert other.is_file()


def test_a_manifest_with_another_head_is_a_fault(bundle: Path, tmp_path: Path) -> None:
    """The heads of the manifest are compared with those of the ledgers and registers."""
    sum_again(bundle, ledgers=[{"experiment": "alpha", "head": "a" * 64}], looks="b" * 64)
    code, lines = verified(tmp_path)
    assert 1 == code
    assert (
        "other head: the ledger of alpha does not end with the head that the manifest names"
        in lines
    )
    assert "other head: a register does not end with the head that the manifest names" in lines


def registered_archive(folder: Path, *, late: bool) -> Path:
    """The bundle of a registered study; `late` is one whose registration came after its runs."""
    sealed = registration(time=STARTED + (3600.0 if late else -3600.0))
    layout = Layout(folder / "runs")
    enter_registration(layout, sealed)
    study = registered_runs(layout, sealed)
    LedgerWriter(study.paths).enter_late()
    with pytest.MonkeyPatch.context() as patch:
        quick_bundles(patch)
        rlexp(folder, "bundle", "duel", *SHORT)
    return folder / "duel.zip"


def test_a_registered_study_is_checked_by_its_bundle_alone(tmp_path: Path) -> None:
    """Hash, root and times of the protocol are checked in an empty folder, and the verdict is said."""
    registered_archive(tmp_path, late=False)
    empty = tmp_path / "empty"
    empty.mkdir()
    code, lines = verified(empty, "../duel.zip")
    assert 0 == code, lines
    (verdict,) = [line for line in lines if line.startswith("protocol duel (hash ")]
    assert "registered" in verdict


def test_a_registration_after_its_runs_is_a_fault(tmp_path: Path) -> None:
    """The bundle shows that the runs are older than the registration."""
    registered_archive(tmp_path, late=True)
    code, lines = verified(tmp_path, "duel.zip")
    assert 1 == code
    assert any(line.startswith("fault: register of protocols: duel: ") for line in lines)


@pytest.mark.parametrize(
    ("before", "after"),
    [('"time":', '"time":1'), ('"margin":20.0', '"margin":2.0'), ('"root":', '"root":1')],
)
def test_an_edited_register_of_protocols_is_a_fault(
    tmp_path: Path, before: str, after: str
) -> None:
    """A registration with another time, margin or root is found, also where all sums are written again."""
    bundle = unpack(registered_archive(tmp_path, late=False), tmp_path / "bundle")
    replace_text(bundle / "runs/protocols.jsonl", before, after)
    sum_again(bundle)
    code, lines = verified(tmp_path)
    assert 1 == code
    assert any(line.startswith("fault: register of protocols: line 1") for line in lines)


def test_a_truncated_archive_is_one_line(archive: Path, tmp_path: Path) -> None:
    """Half of an archive is refused, and so is a name that does not exist."""
    (tmp_path / "half.zip").write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    with pytest.raises(RecordError, match="damaged or cut off"):
        rlexp(tmp_path, "verify", "half.zip")
    with pytest.raises(RecordError, match=r"there is no file .*other\.zip"):
        rlexp(tmp_path, "verify", "other.zip")


def test_an_experiment_comes_before_a_folder_of_its_name(tmp_path: Path, archive: Path) -> None:
    """`alpha` is the experiment, and `./alpha` the bundle."""
    two_labels(tmp_path)
    unpack(archive, tmp_path / "alpha")
    assert "bundle" not in give(tmp_path, "verify", "alpha")
    assert give(tmp_path, "verify", "./alpha").splitlines()[-1] == "The bundle is what was written"


def test_nothing_of_a_bundle_is_imported(bundle: Path, tmp_path: Path) -> None:
    """A metric of another package in the bundle is refused, and its module is not executed."""
    (bundle / "conf/metric").mkdir(parents=True)
    (bundle / "conf/metric/iqm.yaml").write_text("_target_: planted.Metric\n")
    (bundle / "planted.py").write_text("open('executed', 'w').close()\n")
    sum_again(bundle)
    code, lines = verified(tmp_path)
    assert 1 == code
    assert any(line.startswith("not computed: the numbers of reports/alpha") for line in lines)
    assert [] == list(tmp_path.rglob("executed"))


def test_a_planted_catalogue_is_not_trusted(bundle: Path, tmp_path: Path) -> None:
    """A hidden file, as a cache of scores would be, is not read."""
    (bundle / "runs/alpha/.catalogue").write_bytes(b"forged")
    assert 0 == verified(tmp_path)[0]
    sum_again(bundle)
    with pytest.raises(RecordError, match="hidden"):
        rlexp(tmp_path, "verify", "./bundle")


def test_numbers_are_compared_one_by_one() -> None:
    """Rounding is counted apart; another number, a missing value and another text are named."""
    stored = {"a": [1.0, 2.0, 3], "b": "x", "c": True, "version": "0.1"}
    computed = {"a": [1.0, 2.0 * (1 + 1e-12), 4], "b": "y", "version": "0.2", "d": None}
    difference = ReportDifference.between(stored, computed)
    assert (3, 1, 1) == (difference.numbers, difference.equal, difference.rounded)
    assert [
        "a[2] is 3 and follows as 4",
        "b is 'x' and follows as 'y'",
        "d is absent and follows as None",
        "c is True and follows as absent",
    ] == list(difference.texts)
