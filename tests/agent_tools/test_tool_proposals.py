"""A client proposes settings to a stream that the user has begun, and nothing else."""

from pathlib import Path

import pytest
from command_line import typed as rlexp
from tool_client import connected

from rlexp.app.commands.setup.init import init

BEGINNING = (
    *("loop", "--begin", "environment=corridor", "algorithm.n_steps=64", "budget.steps=128"),
    *("budget.final_episodes=1", "budget.evaluation_every=null", "seeds.tuning=4"),
    *("--alpha", "0.5", "--candidates", "2"),
)
REFUSED = (
    "algorithm._target_=intruder.Class",
    "agent.policy_kwargs={_target_:intruder.Class}",
    "algorithm.command='touch intruded'",
    "environment=cartpole",
    "executor=slurm",
    "seeds.tuning=1",
)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_candidate_is_judged_by_a_client(tmp_path: Path) -> None:
    """A client gets the stream and its decision as the command line has them; refused words spend nothing."""
    folder = tmp_path / "workspace"
    init(str(folder))
    begun = rlexp(folder, "propose", *BEGINNING, "--json")
    assert 0 == begun.code, begun.err
    with connected(folder) as client:
        shown = client.document("propose", study="loop")
        assert rlexp(folder, "propose", "loop", "--json").content == shown
        for word in REFUSED:
            refused = client.call("propose", study="loop", words=[word])
            assert "not_allowed" == refused.structured_content["code"], word
        for argument in ("final", "begin", "diff", "worktree"):
            assert client.call("propose", study="loop", **{argument: True}).is_error
        assert shown == client.document("propose", study="loop")
        words = ["algorithm.learning_rate=0.01"]
        judged = client.call("propose", study="loop", words=words, wait_seconds=800)
        # Seeds are trained in groups; the progress of a call grows over all of them.
        reached = [progress for progress, _, _ in client.progress]
        assert len(reached) > 1
        assert reached == sorted(reached)
        assert not judged.is_error, judged.structured_content
        (row,) = judged.structured_content["candidates"]
        assert row["decision"] in {"kept", "discarded", "undecided"}
        assert f"candidate 1 was {row['decision']} with {row['n']} tuning seeds" in str(
            judged.content[0]
        )
        again = client.document("propose", study="loop", words=words)
        assert rlexp(folder, "propose", "loop", *words, "--json").content == again
        assert again["earlier"]
