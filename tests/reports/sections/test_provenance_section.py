"""Provenance in a report."""

import json
from dataclasses import replace
from typing import Any

from evidence_samples import (
    PROVENANCE,
    configured,
    empty,
    evidence,
    incomplete,
    inquiry,
    nothing_run,
    reordered,
    scored,
    typical,
)
from part_blocks import column, notices, of_kind, part_of, table

from rlexp.reports.drawing.blocks import Table, Tone, VerbatimText
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.provenance import ProvenanceSection


def mixed(**changes: Any) -> Evidence:
    """Three runs, the last of which recorded something else."""
    own = scored(configured(), [1.0, 2.0, 3.0])
    return evidence([*own[:2], replace(own[2], provenance={**PROVENANCE, **changes})])


def test_runs_of_one_commit_are_put_together() -> None:
    """Runs of one commit share a row with their number and labels."""
    own = table(part_of(ProvenanceSection(), typical()), "code")
    assert (("aaaaaaaaaaaa", "main", None, None, 30, "all"),) == own.rows


def test_another_commit_has_a_row() -> None:
    """A second commit has a row with its changed files."""
    code = {**PROVENANCE["code"], "commit": "b" * 40, "dirty": ["x.py"]}
    own = table(part_of(ProvenanceSection(), mixed(code=code)), "code")
    assert [2, 1] == column(own, "runs")
    assert [None, "x.py"] == column(own, "changed files")
    assert ["ppo", "ppo"] == column(own, "labels")


def test_a_missing_commit_has_a_row() -> None:
    """A folder without git gives the row `no commit`."""
    own = table(part_of(ProvenanceSection(), mixed(code={})), "code")
    assert ["aaaaaaaaaaaa", "no commit"] == column(own, "commit")


def test_packages_that_matter_are_listed_by_version() -> None:
    """The table has Python and the packages that can change a score."""
    versions = {**PROVENANCE["packages"], "torch": "2.9.0", "rich": "14"}
    own = table(part_of(ProvenanceSection(), mixed(packages=versions)), "packages")
    torch = [row for row in own.rows if row[0] == "torch"]
    assert [("torch", "2.8.0", 2, "ppo"), ("torch", "2.9.0", 1, "ppo")] == torch
    assert "3.11.7" == next(row[1] for row in own.rows if row[0] == "python")
    assert "rich" not in column(own, "package")


def test_hardware_is_listed_with_threads_and_device() -> None:
    """The table has the machine, and threads and device of a run."""
    own = table(part_of(ProvenanceSection(), typical()), "hardware")
    assert (("Example 3000", 2, 8.0, "Linux", 1, "cpu", 30, "all"),) == own.rows


def test_commands_are_listed_once() -> None:
    """Equal commands are listed once, quoted for a shell."""
    own = part_of(ProvenanceSection(), mixed(command=["rlexp", "run", "experiment=a b"]))
    listing = next(b for b in of_kind(own, VerbatimText) if b.name == "commands")
    assert "rlexp run 'experiment=a b'\nrlexp run algorithm=ppo,a2c,dqn" == listing.text


def test_every_configuration_is_listed_whole() -> None:
    """A configuration lists all settings of a run except its seed."""
    found = [
        b
        for b in of_kind(part_of(ProvenanceSection(), typical()), VerbatimText)
        if b.name != "commands"
    ]
    assert 6 == len(found)
    assert "Configuration of ppo on CartPole-v1" == found[0].title
    plain = typical().members[0].record.spec.plain()
    expected = {k: v for k, v in plain.items() if k not in {"phase", "root", "seed"}}
    assert expected == json.loads(found[0].text)


def test_runs_without_provenance_are_warned_of() -> None:
    """Started runs without provenance give a warning."""
    own = scored(configured(), [1.0])[0]
    silent = evidence([replace(own, provenance={})])
    expected = f"The origin of 1 run is not known: {own.name}."
    assert [(Tone.WARNING, expected)] == notices(part_of(ProvenanceSection(), silent))


def test_what_was_never_run_has_only_its_configuration() -> None:
    """Planned runs have a configuration, without tables and warnings."""
    own = part_of(ProvenanceSection(), nothing_run())
    assert ([], []) == (of_kind(own, Table), notices(own))
    assert 2 == len(of_kind(own, VerbatimText))


def test_it_is_folded_and_in_no_order_of_runs() -> None:
    """The same runs in another order give the same part."""
    own = part_of(ProvenanceSection(), incomplete())
    assert own.folded
    assert own == part_of(ProvenanceSection(), reordered(incomplete(), 3))


def test_an_experiment_without_runs_has_no_part() -> None:
    """An experiment without planned runs has no provenance."""
    assert None is ProvenanceSection().part(inquiry(empty()))
