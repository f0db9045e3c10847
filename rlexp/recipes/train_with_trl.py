"""Trains a language model by TRL, as a run of rlexp (`algorithm=recipe/trl_rloo`).

The Python of a virtual environment with trl executes it, so nothing of rlexp but `rlexp.trainer` may be
imported here. The model is made here with random weights, and nothing is downloaded: its task is to repeat the
letter of its prompt. Steps are tokens that the model writes. `settings.algorithm` names the method, settings
that are not `OF_TRAINING` are arguments of its configuration.
"""

import os
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any

# Before the libraries are imported: a model of its own needs no network.
os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1")

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    TrainerCallback,
    set_seed,
)
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from rlexp.trainer import Trainer

METHODS = {"rloo": (RLOOTrainer, RLOOConfig), "grpo": (GRPOTrainer, GRPOConfig)}
OF_TRAINING = ("algorithm", "letters", "width", "layers", "checkpoint_every")
"""Settings that are not arguments of the method's configuration."""
GIVEN = {
    *("output_dir", "seed", "max_steps", "lr_scheduler_type", "logging_steps", "save_strategy"),
    *("report_to", "shuffle_dataset", "disable_tqdm", "use_cpu"),
}
"""Arguments of the configuration that this script gives itself."""
PADDING, END = "<pad>", "<end>"
WITHOUT_END = 10**9
"""Updates after which a training would end that its tokens do not end."""


def tokenizer_of(letters: str) -> Any:
    """A tokenizer with a token for each letter."""
    words = {word: number for number, word in enumerate([PADDING, END, *letters])}
    bare = Tokenizer(models.WordLevel(words, unk_token="<pad>"))  # noqa: S106
    bare.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=bare,
        pad_token=PADDING,
        eos_token=END,
        padding_side="left",
    )


def model_of(run: Trainer, tokenizer: Any) -> Any:
    """A small model with random weights."""
    torch.manual_seed(run.seed)
    width = run.settings["width"]
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=len(tokenizer), n_positions=256, n_embd=width, n_head=2,
            n_layer=run.settings["layers"], resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=1, eos_token_id=1, pad_token_id=0,
        )
    )  # fmt: skip


def reward_of(prompt: str, completion: str, longest: int) -> float:
    """The share of the longest completion that repeats the letter of the prompt."""
    return sum(letter == prompt for letter in completion) / longest


class TokenCallback(TrainerCallback):
    """Counts tokens, plays the evaluations that are due, and keeps checkpoints of the library."""

    def __init__(self, run: Trainer, tokenizer: Any, tokens: int) -> None:
        self.run, self.tokenizer = run, tokenizer
        self.tokens = self.saved = tokens

    def rewards(
        self, prompts: list[str], completions: list[str], completion_ids: list[Any], **_: Any
    ) -> list[float]:
        """The reward of each completion, whose tokens are counted."""
        self.tokens += sum(map(len, completion_ids))
        longest = self.run.settings["max_completion_length"]
        pairs = zip(prompts, completions, strict=True)
        return [reward_of(prompt, completion, longest) for prompt, completion in pairs]

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Seed all generators by the number of the update, so that it is the same one after a kill."""
        del args, control
        seed = self.run.configuration["seeds"]["actions"]
        set_seed(int(np.random.default_rng([seed, state.global_step]).integers(2**31)))

    def on_step_end(self, args: Any, state: Any, control: Any, **parts: Any) -> None:
        """Evaluate where it is due, save at intervals, and end with the budget."""
        del args, state
        if self.run.is_due(self.tokens):
            evaluate(self.run, parts["model"], self.tokenizer, self.tokens)
        control.should_training_stop = self.tokens >= self.run.steps
        control.should_save = self.tokens - self.saved >= self.run.settings["checkpoint_every"]

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float], **_: Any
    ) -> None:
        """Report what the library logs."""
        del args, state, control
        self.run.report(
            self.tokens, **{k: v for k, v in logs.items() if isinstance(v, int | float)}
        )

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Keep the library's checkpoint as that of the run."""
        del control
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        self.saved = self.tokens
        self.run.checkpoint(self.tokens, lambda path: shutil.copytree(folder, path))
        shutil.rmtree(folder)


def evaluate(run: Trainer, model: Any, tokenizer: Any, step: int, *, final: bool = False) -> None:
    """Let the model answer a prompt in each episode, with random numbers of its own."""
    seed, episodes = run.evaluation(step, final=final)
    letters, longest = run.settings["letters"], run.settings["max_completion_length"]
    prompts = [letters[number % len(letters)] for number in range(episodes)]
    inputs = tokenizer(prompts, return_tensors="pt").to(model.device)
    sampled = not run.configuration["budget"]["evaluation_deterministic"]
    was_training = model.training
    model.eval()
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(seed)
        written = model.generate(**inputs, do_sample=sampled, max_new_tokens=longest, top_k=0)
    model.train(was_training)
    answers = written[:, inputs["input_ids"].shape[1] :]
    texts = [
        text.replace(" ", "") for text in tokenizer.batch_decode(answers, skip_special_tokens=True)
    ]
    pairs = zip(prompts, texts, strict=True)
    returns = [reward_of(prompt, text, longest) for prompt, text in pairs]
    run.evaluated(step, returns, [max(len(text), 1) for text in texts], final=final)


def main() -> None:
    """Train and evaluate the run."""
    run = Trainer.of_run()
    kind, configuration = METHODS[run.settings["algorithm"]]
    run.check_settings({*OF_TRAINING, *(field.name for field in fields(configuration))} - GIVEN)
    saved = run.restored()
    tokenizer = tokenizer_of(run.settings["letters"])
    callback = TokenCallback(run, tokenizer, saved.step if saved else 0)
    arguments = {name: value for name, value in run.settings.items() if name not in OF_TRAINING}
    trainer = kind(
        model=model_of(run, tokenizer),
        reward_funcs=callback.rewards,
        args=configuration(
            str(run.folder / "trainer"), seed=run.seed % 2**31, max_steps=WITHOUT_END,
            lr_scheduler_type="constant", logging_steps=1, save_strategy="no", report_to="none",
            # A library that continues does not know where in a shuffled order it was.
            shuffle_dataset=False,
            disable_tqdm=True, use_cpu=run.configuration["compute"]["device"] == "cpu", **arguments,
        ),
        train_dataset=Dataset.from_dict({"prompt": list(run.settings["letters"])}),
        processing_class=tokenizer,
        callbacks=[callback],
    )  # fmt: skip
    trainer.train(resume_from_checkpoint=str(saved.path) if saved else None)
    evaluate(run, trainer.model, tokenizer, callback.tokens, final=True)


if __name__ == "__main__":
    main()
