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

from rlexp.reports.drawing.blocks import Listing, Table, Tone
from rlexp.reports.evidence.runs import Evidence
from rlexp.reports.sections.provenance import ProvenanceSection


def mixed(**changes: Any) -> Evidence:
    """Three runs, the last of which recorded something else."""
    own = scored(configured(), [1.0, 2.0, 3.0])
    return evidence([*own[:2], replace(own[2], provenance={**PROVENANCE, **changes})])


def test_runs_of_one_commit_are_put_together() -> None:
    """How many, and whose."""
    own = table(part_of(ProvenanceSection(), typical()), "code")
    assert (("aaaaaaaaaaaa", "main", None, None, 30, "all"),) == own.rows


def test_another_commit_has_a_row() -> None:
    """With the changed files."""
    code = {**PROVENANCE["code"], "commit": "b" * 40, "dirty": ["x.py"]}
    own = table(part_of(ProvenanceSection(), mixed(code=code)), "code")
    assert [2, 1] == column(own, "runs")
    assert [None, "x.py"] == column(own, "changed files")
    assert ["ppo", "ppo"] == column(own, "labels")


def test_no_commit_is_said() -> None:
    """A folder that is no git checkout."""
    own = table(part_of(ProvenanceSection(), mixed(code={})), "code")
    assert ["aaaaaaaaaaaa", "no commit"] == column(own, "commit")


def test_packages_that_matter_are_listed_by_version() -> None:
    """Python among them, others not."""
    versions = {**PROVENANCE["packages"], "torch": "2.9.0", "rich": "14"}
    own = table(part_of(ProvenanceSection(), mixed(packages=versions)), "packages")
    torch = [row for row in own.rows if row[0] == "torch"]
    assert [("torch", "2.8.0", 2, "ppo"), ("torch", "2.9.0", 1, "ppo")] == torch
    assert "3.11.7" == next(row[1] for row in own.rows if row[0] == "python")
    assert "rich" not in column(own, "package")


def test_hardware_is_told_with_what_a_run_used() -> None:
    """Processor, cores and memory; threads and device."""
    own = table(part_of(ProvenanceSection(), typical()), "hardware")
    assert (("Example 3000", 2, 8.0, "Linux", 1, "cpu", 30, "all"),) == own.rows


def test_commands_are_listed_once() -> None:
    """As they can be typed again."""
    own = part_of(ProvenanceSection(), mixed(command=["rlexp", "run", "experiment=a b"]))
    listing = next(b for b in of_kind(own, Listing) if b.name == "commands")
    assert "rlexp run 'experiment=a b'\nrlexp run algorithm=ppo,a2c,dqn" == listing.text


def test_every_configuration_is_listed_whole() -> None:
    """All that defines a run, but its seed."""
    found = [
        b
        for b in of_kind(part_of(ProvenanceSection(), typical()), Listing)
        if b.name != "commands"
    ]
    assert 6 == len(found)
    assert "Configuration of ppo on CartPole-v1" == found[0].title
    plain = typical().members[0].record.spec.plain()
    expected = {k: v for k, v in plain.items() if k not in {"phase", "root", "seed"}}
    assert expected == json.loads(found[0].text)


def test_runs_that_come_from_nowhere_are_warned_of() -> None:
    """They were tried, and nothing is known of it."""
    own = scored(configured(), [1.0])[0]
    silent = evidence([replace(own, provenance={})])
    expected = f"The origin of 1 run is not known: {own.name}."
    assert [(Tone.WARNING, expected)] == notices(part_of(ProvenanceSection(), silent))


def test_what_was_never_run_has_only_its_configuration() -> None:
    """No table, and no warning."""
    own = part_of(ProvenanceSection(), nothing_run())
    assert ([], []) == (of_kind(own, Table), notices(own))
    assert 2 == len(of_kind(own, Listing))


def test_it_is_folded_and_in_no_order_of_runs() -> None:
    """The same runs in another order give the same part."""
    own = part_of(ProvenanceSection(), incomplete())
    assert own.folded
    assert own == part_of(ProvenanceSection(), reordered(incomplete(), 3))


def test_nothing_asked_for_has_no_part() -> None:
    """There is nothing to come from anywhere."""
    assert None is ProvenanceSection().part(inquiry(empty()))
