"""Seeds are unique, are never shared between uses, and do not depend on their count."""

from hashlib import blake2b

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from samples import algorithm, spec

from rlexp.errors import ProtocolError
from rlexp.protocol.seeds import (
    EVALUATION_ENVIRONMENTS,
    FRESH_EVALUATIONS,
    INDICES,
    MAXIMUM_EVALUATIONS,
    ROUNDS,
    SUBSTREAMS,
    Phase,
    SeedPlan,
    Streams,
    permute,
)

numbers = st.integers(0, 2**32 - 1)
roots = st.integers(0, 2**80)
phases = st.sampled_from(Phase)
indices = st.integers(0, INDICES - 1)
ROOTS = (0, 1, 42, 2**31, 2**64 + 1)


def undo(value: int, root: int) -> int:
    """The inverse of `permute`, written from its definition."""
    left, right = value >> 16, value & 0xFFFF
    key = root.to_bytes((root.bit_length() + 7) // 8 or 1, "little")[:64]
    for turn in reversed(range(ROUNDS)):
        code = blake2b(bytes((turn, left >> 8, left & 0xFF)), key=key, digest_size=2).digest()
        left, right = right ^ int.from_bytes(code, "little"), left
    return left << 16 | right


def sampled_seeds(streams: Streams) -> list[int]:
    """A sample of the seeds that one run gives to libraries, with the ends of each range."""
    last = EVALUATION_ENVIRONMENTS - 1
    return [
        *(streams.training(i) for i in (0, 1, SUBSTREAMS - 1)),
        *(streams.evaluation(n, e) for n in (0, 1, MAXIMUM_EVALUATIONS) for e in (0, last)),
        *(streams.fresh(n, e) for n in (0, FRESH_EVALUATIONS - 1) for e in (0, last)),
        *(streams.sampling(n) for n in (0, 1, MAXIMUM_EVALUATIONS)),
        *(streams.fresh_sampling(n) for n in (0, 1, FRESH_EVALUATIONS - 1)),
        streams.policy,
        streams.actions,
    ]


@given(numbers, roots)
def test_a_permutation_can_be_inverted(value: int, root: int) -> None:
    """The permutation has an inverse for any root, so that it is a bijection."""
    assert value == undo(permute(value, root), root)


@given(numbers, roots)
def test_a_permuted_number_has_32_bits(value: int, root: int) -> None:
    """A permuted number has 32 bits, which every library takes as a seed."""
    assert 0 <= permute(value, root) < 2**32


@given(numbers, numbers, roots)
def test_two_numbers_stay_different(first: int, second: int, root: int) -> None:
    """Two different numbers have different permuted numbers."""
    assume(first != second)
    assert permute(first, root) != permute(second, root)


def test_neighbouring_numbers_are_all_different_and_spread() -> None:
    """Sixteen thousand neighbours have different images in every part of the range."""
    images = {permute(value, 7) for value in range(1 << 14)}
    assert 1 << 14 == len(images)
    assert 256 == len({image >> 24 for image in images})


@pytest.mark.parametrize(
    ("value", "root", "expected"),
    [
        (0, 0, 736088525),
        (1, 0, 1313641583),
        (2**32 - 1, 0, 324882483),
        (0, 1, 1111048035),
        (2**32 - 1, 1, 1009758843),
    ],
)
def test_the_numbers_are_for_ever(value: int, root: int, expected: int) -> None:
    """A later version repeats what an earlier one recorded: these numbers never change."""
    assert expected == permute(value, root)


@pytest.mark.parametrize("root", ROOTS)
def test_no_number_is_handed_out_twice(root: int) -> None:
    """All seeds differ within a run, and between runs of different phases or indices."""
    seeds = [
        number
        for phase in Phase
        for index in (*range(199), INDICES - 1)
        for number in sampled_seeds(Streams(root, phase, index))
    ]
    assert 3 * 200 * len(sampled_seeds(Streams(root, Phase.TEST, 0))) == len(seeds)
    assert len(seeds) == len(set(seeds))


def test_all_seeds_of_a_run_are_different() -> None:
    """All training environments, evaluations and draws of a run have different seeds."""
    streams = Streams(3, Phase.TEST, 5)
    evaluations = range(MAXIMUM_EVALUATIONS + 1)
    seeds = [
        *(streams.training(i) for i in range(4096)),
        *(streams.evaluation(n, e) for n in evaluations for e in range(EVALUATION_ENVIRONMENTS)),
        *(streams.sampling(n) for n in evaluations),
        *(streams.fresh(n, e) for n in range(64) for e in range(EVALUATION_ENVIRONMENTS)),
        *(streams.fresh_sampling(n) for n in range(FRESH_EVALUATIONS)),
        streams.policy,
        streams.actions,
    ]
    assert len(seeds) == len(set(seeds))


@given(roots, phases, indices, phases, indices)
def test_training_never_shares_a_seed_with_evaluation(
    root: int, phase: Phase, index: int, other_phase: Phase, other_index: int
) -> None:
    """No evaluation of any run uses a seed of any training."""
    training_seeds = {Streams(root, phase, index).training(i) for i in range(4)}
    run = Streams(root, other_phase, other_index)
    evaluation_seeds = {play(0, i) for play in (run.evaluation, run.fresh) for i in range(4)}
    assert set() == training_seeds & evaluation_seeds


@given(roots, phases, indices)
def test_configurations_share_the_seeds_of_an_index(root: int, phase: Phase, index: int) -> None:
    """Configurations share the seeds of an index, so that their scores can be paired."""
    ppo = spec(index, phase, root=root).streams
    a2c = spec(index, phase, root=root, learner=algorithm("a2c", gamma=0.5), steps=7).streams
    assert sampled_seeds(ppo) == sampled_seeds(a2c)


def test_another_root_gives_other_numbers() -> None:
    """Experiments of different roots have no seed in common."""
    first, second = (set(sampled_seeds(Streams(root, Phase.TEST, 0))) for root in (0, 1))
    assert set() == first & second


@pytest.mark.parametrize("index", [-1, INDICES])
def test_a_seed_out_of_range_is_refused(index: int) -> None:
    """A seed out of range is refused with the valid range."""
    with pytest.raises(ProtocolError, match=f"seed {index} is out of range: seeds are 0 … 16383"):
        _ = Streams(0, Phase.TEST, index).policy


@pytest.mark.parametrize("number", [-1, SUBSTREAMS])
def test_a_sub_stream_out_of_range_is_refused(number: int) -> None:
    """A sub-stream out of range is refused with the number of sub-streams."""
    with pytest.raises(ProtocolError, match="there are 16384 a stream"):
        Streams(0, Phase.TEST, 0).training(number)


@pytest.mark.parametrize("environment", [-1, EVALUATION_ENVIRONMENTS])
def test_an_evaluation_has_eight_environments(environment: int) -> None:
    """A ninth environment, whose seed the next evaluation would use, is refused."""
    with pytest.raises(ProtocolError, match="there are 8"):
        Streams(0, Phase.TEST, 0).evaluation(0, environment)


@given(phases, st.integers(0, 300), st.integers(0, 300))
def test_the_seeds_of_a_smaller_count_come_first(phase: Phase, count: int, increase: int) -> None:
    """The i-th seed never depends on the count, so that a plan can grow."""
    fewer_seeds = SeedPlan(root=0, **dict.fromkeys(Phase, count)).seeds(phase)
    more_seeds = SeedPlan(root=0, **dict.fromkeys(Phase, count + increase)).seeds(phase)
    assert (fewer_seeds, count + increase) == (more_seeds[:count], len(set(more_seeds)))


@given(st.lists(indices, unique=True, max_size=20))
def test_a_list_of_seeds_is_taken_as_it_stands(seeds: list[int]) -> None:
    """An explicit list of seeds is used in its order."""
    plan = SeedPlan(root=0, tuning=3, selection=0, test=tuple(seeds))
    assert tuple(seeds) == plan.seeds(Phase.TEST)


def test_a_list_that_repeats_a_seed_is_refused() -> None:
    """A list that names a seed twice is refused."""
    with pytest.raises(ProtocolError, match=r"seeds.test repeats \[1, 4\]; name each seed once"):
        SeedPlan(root=0, tuning=3, selection=0, test=(4, 1, 1, 4, 2))


def test_lists_of_two_phases_that_share_a_seed_are_refused() -> None:
    """A seed that the lists of two phases share is refused."""
    with pytest.raises(ProtocolError, match=r"both list \[2\]; give each phase different seeds"):
        SeedPlan(root=0, tuning=(1, 2), selection=(3,), test=(2, 5))
