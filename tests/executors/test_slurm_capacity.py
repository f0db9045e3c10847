"""Requests that no node of a Slurm cluster can meet, by what `sinfo` says of the nodes."""

from math import inf

import pytest

from rlexp.errors import RefusedRequestError
from rlexp.executors.slurm.capacity import Node, Request, parse_nodes

SINFO = """\
CLUSTER: here
short*|16|64000|(null)
short*|8|1|(null)
gpu|32|256000|gpu:a100:4(S:0-1),gpu:t4:2
old|4|8000|gpu:2
"""


def request(
    partition: str | None = None, cpus: int = 1, memory: str | None = None, gpus: str = "0"
) -> Request:
    """A request of one core; keyword arguments change it."""
    return Request(partition=partition, cpus=cpus, memory=memory, gpus=gpus)


def test_the_lines_of_sinfo_are_read() -> None:
    """Each line is a kind of node; lines of another form are skipped, and 1 MB means unknown."""
    assert parse_nodes(SINFO) == [
        Node("short", True, 16, 64000, {}),
        Node("short", True, 8, inf, {}),
        Node("gpu", False, 32, 256000, {"a100": 4, "t4": 2}),
        Node("old", False, 4, 8000, {"": 2}),
    ]


@pytest.mark.parametrize(
    "possible",
    [
        request(cpus=16),
        request(cpus=8, memory="900G"),
        request("gpu", cpus=32, memory="250G", gpus="a100:4"),
        request("gpu", gpus="6"),
        request("short,gpu", gpus="t4:2"),
        request("old", memory="8000"),
        request("old", memory="8000000K"),
    ],
)
def test_what_a_node_has_is_accepted(possible: Request) -> None:
    """A request that a node of its partitions can meet is accepted."""
    possible.check(parse_nodes(SINFO))


@pytest.mark.parametrize(
    ("impossible", "message"),
    [
        (request("gup"), "executor.partition='gup' is no partition of this cluster"),
        (request("short,gup"), "did you mean 'gpu'?"),
        (request(cpus=17), "lower executor.cpus to 16 or less"),
        (request("gpu", memory="1T"), "lower executor.memory to 256000 MB or less"),
        (request(gpus="1"), "no node of the default partition has 1 of executor.gpus"),
        (request("gpu", gpus="t4:3"), "3 of executor.gpus of type t4"),
        (request("gpu", gpus="v100:1"), "lower executor.gpus to 0 or less"),
        (request(cpus=16, memory="900G"), "has 16 cores, 921600 MB and executor.gpus=0 together"),
    ],
)
def test_what_no_node_has_is_refused(impossible: Request, message: str) -> None:
    """A request that no node can meet is refused in one line that names the setting."""
    with pytest.raises(RefusedRequestError) as error:
        impossible.check(parse_nodes(SINFO))
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert 2 == error.value.exit_code


def test_where_nothing_is_known_nothing_is_refused() -> None:
    """Without an answer of `sinfo`, Slurm decides about a request."""
    request("nowhere", cpus=999).check(parse_nodes(""))
