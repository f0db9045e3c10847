"""Exported files keep their structure if names contain Markdown, YAML or Python."""

import ast
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from evidence_samples import configured, evidence, inquiry, scored

from rlexp.app.exporting.huggingface import ModelCard, model_file, render_card
from rlexp.exchange.exporters.script import Recipe, ScriptLearner, ScriptTask, render_script
from rlexp.metrics.iqm import InterquartileMean
from rlexp.protocol.experiment import Configuration
from rlexp.reports.analysis.estimates import per_task

sys.path.append(str(Path(__file__).parents[2] / "faults"))
from hostile_strings import HOSTILE

HARMLESS = "x"


def configuration_named(text: str, **budget: Any) -> Configuration:
    """A configuration whose label and task are this text."""
    base = configured(**budget)
    fields = {name: getattr(base, name) for name in base.__slots__}
    return Configuration(**{**fields, "label": text, "task": text})


def card_about(text: str, **budget: Any) -> str:
    """The card of a configuration with this name."""
    context = inquiry(
        evidence(scored(configuration_named(text, **budget), [1.0, 2.0, 4.0])), repetitions=100
    )
    context = type(context)(
        evidence=context.evidence,
        settings=context.settings,
        metrics={"iqm": InterquartileMean()},
    )
    card = ModelCard(
        inquiry=context,
        estimates=per_task(context)[0],
        algorithm="PPO",
        loader="PPO",
        model="ppo-x.zip",
        folders={0: "seed-0"},
        foreign=(),
        report=False,
    )
    return render_card(card).decode()


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_name_does_not_change_the_structure_of_a_card(text: str) -> None:
    """A hostile name changes neither the keys of the YAML head nor the headings of the body."""
    card, expected = card_about(text), card_about(HARMLESS)
    (head, body), (_, harmless) = (re.split(r"\n---\n", t, maxsplit=1) for t in (card, expected))
    settings = yaml.safe_load(head.removeprefix("---\n"))
    assert ["library_name", "tags", "model-index"] == list(settings)
    assert 4 == len(settings["tags"])
    assert all(isinstance(tag, str) and "\n" not in tag for tag in settings["tags"])
    assert _marks(harmless) == _marks(body)
    assert not re.search(r"(?<!\\)<(?!br>)|(?<!\\)\]\(", body)


def _marks(body: str) -> list[str]:
    """The structure of a Markdown text: the first characters of its lines."""
    mark = re.compile(r"(#+|>|\||```)")
    return [match[1] for line in body.splitlines() if (match := mark.match(line))]


def recipe(text: Any) -> Recipe:
    """A recipe that has this text in every field that takes text."""
    return Recipe(
        about={"run": text, "label": text, "task": text},
        task=ScriptTask(
            id=text,
            modules=(text,),
            arguments={"a": text, "b": {"c": [text]}},
            wrappers=((text, text, {"d": text}),),
            count=1,
            frame_stack=1,
            normalisation=None,
        ),
        learner=ScriptLearner(
            package="stable_baselines3",
            name="PPO",
            policy="MlpPolicy",
            hyperparameters={"ent_coef": text},
            compiled=None,
            policy_arguments={"e": text},
            seed=1,
            actions=2,
            device="cpu",
            explores=True,
            masked=True,
            noisy=True,
        ),
        model="model.zip",
        statistics="normalisation.npz",
        threads=1,
        steps=2,
        deterministic=True,
        evaluation_seeds=(1,),
        sampling=3,
        training_seeds=(4,),
        returns=(1.0,),
        lengths=(2,),
    )


@pytest.mark.parametrize(
    "text", [*HOSTILE, "'''", '"""', "'); import os; ('", "{__import__('os')}"]
)
def test_a_hostile_name_does_not_change_the_program_of_a_script(text: str) -> None:
    """A hostile name changes nothing but that text in the program of a script."""
    expected = ast.dump(ast.parse(render_script(recipe(HARMLESS))))
    program = ast.dump(ast.parse(render_script(recipe(text))))
    assert expected == program.replace(repr(text), repr(HARMLESS))


@pytest.mark.parametrize("text", HOSTILE)
def test_file_names_are_safe_and_short(text: str) -> None:
    """Names of files have only letters, digits, dots, dashes and underscores, and are short."""
    base = configured()
    fields = {name: getattr(base, name) for name in base.__slots__}
    parts = {"environment": {"id": text}, "algorithm": {"_target_": f"rlexp.algorithms.{text}.X"}}
    (member,) = scored(Configuration(**{**fields, **parts}), [1.0])
    name = model_file(member)
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,240}", name)
    assert name.endswith(".zip")


def test_the_library_of_the_hub_reads_the_card() -> None:
    """The Hub's library finds a number with its spread, of the right task, in a valid card."""
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard(card_about("CartPole-v1"))
    [result] = card.data.eval_results
    assert ("reinforcement-learning", "mean_reward") == (result.task_type, result.metric_type)
    assert ("CartPole-v1", "CartPole-v1") == (result.dataset_type, result.dataset_name)
    mean, _, deviation = result.metric_value.partition(" +/- ")
    assert 7 / 3 == pytest.approx(float(mean), abs=0.005)
    assert 1.53 == float(deviation)
    assert "IQM" not in result.metric_value
    assert "IQM" in card.text
    assert f"{result.metric_value}, is the mean of the scores" in card.text.replace("\\", "")
    assert "PPO" == card.data.model_name
    assert card.data.library_name == "stable-baselines3"


def test_a_score_that_is_no_final_return_has_its_own_name() -> None:
    """The head of a card calls nothing `mean_reward` but returns of the final policy."""
    card = card_about("x", score="auc")
    head = yaml.safe_load(card.split("---\n")[1])
    [metric] = head["model-index"][0]["results"][0]["metrics"]
    assert ("score", "the mean height of the curve of evaluations during training") == (
        metric["type"],
        metric["name"],
    )
