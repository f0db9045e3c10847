"""`rlexp gc` tells what finished runs keep, and removes it without touching anything else."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import give, give_json, rlexp
from finished_runs import Finished, finish
from quick_parts import quick_parts
from samples import PRUNER, TUNER
from sweep_samples import PLAN, SPACE

from rlexp.errors import RlexpError
from rlexp.protocol.experiment import Extension
from rlexp.protocol.seeds import Phase
from rlexp.protocol.sweep import Sweep, SweepPlan
from rlexp.records.events import Ending
from rlexp.records.selection import Finalist, Selection
from rlexp.store.checkpoints.checkpoint_files import is_resumable
from rlexp.store.checkpoints.inheritance import find_copy, inherit
from rlexp.store.layout import ExperimentPaths
from rlexp.store.locks.lease import hold
from rlexp.store.runs import read_definition, read_spec, write_experiment
from rlexp.store.sweeps import StoredTrial, append_trial, write_selection

WORDS = (
    *("algorithm=sac", "environment=pendulum", "environment.max_episode_steps=20"),
    *("algorithm.learning_starts=8", "algorithm.buffer_size=50", "agent.network=[4]"),
)

quick = pytest.fixture(autouse=True)(quick_parts)


@pytest.fixture
def kept(tmp_path: Path) -> Finished:
    """A completed run that keeps its replay buffer."""
    return finish(tmp_path, *WORDS, "budget.keep_last=true")


def sizes(run: Finished) -> tuple[int, int]:
    """Bytes of the replay buffer and of the other state, on disk."""
    replay = sum(p.stat().st_size for p in run.paths.replay.glob("*"))
    return replay, sum(p.stat().st_size for p in run.paths.checkpoints.glob("*/state.npz"))


def test_sizes_are_told_and_buffers_removed(kept: Finished, tmp_path: Path) -> None:
    """Without `--yes` nothing changes; with it the buffer goes, and the rest stays."""
    replay, state = sizes(kept)
    assert min(replay, state) > 0
    assert is_resumable(kept.paths, 63)
    told = give_json(tmp_path, "garbage-collection", "gc")
    (entry,) = told["experiments"]
    assert (replay, state, replay) == (entry["replay_bytes"], entry["state_bytes"], told["bytes"])
    assert (replay, state) == sizes(kept)
    assert "rlexp gc --yes" in give(tmp_path, "gc")
    give(tmp_path, "gc", "tiny", "--yes")
    assert (0, state) == sizes(kept)
    assert not is_resumable(kept.paths, 63)
    assert "nothing to remove" in give(tmp_path, "gc", "--yes")


def test_states_are_removed_and_policies_stay(kept: Finished, tmp_path: Path) -> None:
    """`--states` leaves the policies, which can still be read; the run stays as it is."""
    model = kept.paths.model.read_bytes()
    assert (
        sum(sizes(kept))
        == give_json(tmp_path, "garbage-collection", "gc", "--states", "--yes")["bytes"]
    )
    assert (0, 0) == sizes(kept)
    assert ["model.zip"] == sorted(p.name for p in kept.paths.checkpoints.glob("*/*.zip"))
    assert model == kept.paths.model.read_bytes()
    assert "nothing to remove" in give(tmp_path, "gc")


def test_what_is_needed_or_in_use_stays(kept: Finished, tmp_path: Path) -> None:
    """The state of an experiment in use stays, and so does that of an unfinished run."""
    before = sizes(kept)
    experiment = kept.study.layout.experiment("tiny")
    with hold(experiment.lock, "experiment tiny", now=0.0):
        assert "in use by" in give(tmp_path, "gc", "--yes")
    assert before == sizes(kept)
    journal = kept.paths.attempt(1).journal
    *lines, last = journal.read_text().splitlines()
    ended = {**json.loads(last), "ending": str(Ending.INTERRUPTED)}
    journal.write_text("\n".join([*lines, json.dumps(ended)]) + "\n")
    give(tmp_path, "gc", "--states", "--yes")
    assert before == sizes(kept)


def test_what_an_extension_still_needs_stays(kept: Finished, tmp_path: Path) -> None:
    """A state stays until an extension has taken it over, and may be removed after that."""
    layout, before = kept.study.layout, sizes(kept)
    tiny, longer = layout.experiment("tiny"), layout.experiment("longer")
    definition = read_definition(tiny)
    copy = find_copy(kept.paths, read_spec(kept.paths).id)
    assert copy is not None
    extends = Extension(experiment="tiny", parents={copy.parent.run: copy.parent})
    write_experiment(longer, replace(definition, name="longer", extends=extends))
    output = give(tmp_path, "gc", "--states", "--yes")
    assert "longer extends runs of tiny and has not taken over their states yet" in output
    assert "nothing to remove" in output
    assert before == sizes(kept)
    ((_, spec),) = read_definition(longer).specs(Phase.TEST)
    inherit(longer.run(spec.name), spec, tiny)
    give(tmp_path, "gc", "--states", "--yes")
    assert (0, 0) == sizes(kept)
    assert find_copy(longer.run(spec.name).parent, copy.parent.run) is not None


def test_an_unknown_experiment_is_refused(tmp_path: Path) -> None:
    """A name without an experiment is refused."""
    with pytest.raises(RlexpError, match="there is no experiment 'nothing'"):
        rlexp(tmp_path, "gc", "nothing")


def test_runs_that_a_longer_trial_may_continue_stay(tmp_path: Path) -> None:
    """A sweep keeps the states of its shorter runs until it has chosen its winner."""
    run = finish(tmp_path, *WORDS, "budget.keep_last=true", "phase=tuning")
    paths = ExperimentPaths(run.paths.folder.parent)
    experiment = read_definition(paths)
    (short,) = experiment.configurations
    whole = replace(short, budget=replace(short.budget, steps=2 * short.budget.steps))
    plan = SweepPlan(**{**PLAN, "continuation": True})
    sweep = Sweep(name="", space=SPACE, tuner=TUNER, pruner=PRUNER, plan=plan)
    write_experiment(paths, replace(experiment, configurations=(whole,), sweep=sweep))
    for number, configuration in enumerate((whole, short)):
        steps = configuration.budget.steps
        append_trial(
            paths,
            StoredTrial(number=number, parameters={}, steps=steps, configuration=configuration),
        )
    before = sizes(run)
    output = give(tmp_path, "gc", "--states", "--yes")
    assert "longer runs of tiny may continue some of its runs" in output
    assert before == sizes(run)
    assert min(before) > 0
    finalists = (Finalist(number=0, tuning=(1.0,)),)
    write_selection(paths, Selection(winner=0, finalists=finalists, rule="best"))
    give(tmp_path, "gc", "--states", "--yes")
    assert (0, 0) == sizes(run)
