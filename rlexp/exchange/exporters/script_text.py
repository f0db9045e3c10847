"""The parts of an exported script that are the same for every run."""

DOCSTRING = '''
"""Rebuilds a trained policy with Stable-Baselines3 and plays its final evaluation again.

    python evaluate.py           plays with the parameters beside this script
    python evaluate.py --train   trains them anew, from the first step, and then plays

It plays the same episodes with the same seeds and compares their returns with those that the run
recorded. It ends with 0 where they are equal, and with 1 where they are not, which other versions
of the packages than those in requirements.txt, or another processor, can bring about.

No pickle is loaded: the learner is built here, and its parameters are put into it.
Written by rlexp, which it does not need.
"""
'''

ENVIRONMENTS = '''
class TaskReward(gym.Wrapper):
    """Innermost: adds up the task's own reward, which no other wrapper has changed."""

    def __init__(self, env):
        super().__init__(env)
        self.total = 0.0

    def step(self, action):
        result = self.env.step(action)
        self.total += float(result[1])
        return result


class Episode(gym.Wrapper):
    """Outermost: hands its seed to the first reset, and tells exact returns and lengths.

    `Monitor` of Stable-Baselines3 would round returns, and know only the outermost reward.
    """

    def __init__(self, env, task, seed):
        super().__init__(env)
        self.task, self.seed, self.rewards = task, seed, []
        # How many episodes are left to play (None: no end), and what is shown after the last one.
        self.left, self.shown = None, env.observation_space.sample()

    def play(self, episodes):
        self.left = episodes

    def reset(self, **settings):
        if self.left == 0:
            return self.shown, {}
        settings["seed"], self.seed = self.seed, None
        result = self.env.reset(**settings)
        self.task.total, self.rewards = 0.0, []
        return result

    def step(self, action):
        if self.left == 0:
            return self.shown, 0.0, False, False, {}
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(self.task.total)
        self.task.total = 0.0
        if terminated or truncated:
            info["episode"] = {"r": math.fsum(self.rewards), "l": len(self.rewards), "t": 0.0}
            if self.left is not None:
                self.left -= 1
        return observation, reward, terminated, truncated, info


def make(seed):
    """One environment with its wrappers."""
    for module in MODULES:
        import_module(module)
    task = env = TaskReward(gym.make(disable_env_checker=True, **ENVIRONMENT))
    for module, name, arguments in WRAPPERS:
        env = getattr(import_module(module), name)(env, **arguments)
    return Episode(env, task, seed)


def vectorised(seeds, training=False):
    """Environments side by side, one for each seed; rewards are normalised in training only."""
    vector = DummyVecEnv([lambda seed=seed: make(seed) for seed in seeds])
    if NORMALISE is not None and (training or NORMALISE["norm_obs"]):
        settings = {**NORMALISE, "norm_reward": training and NORMALISE["norm_reward"]}
        vector = VecNormalize(vector, training=training, **settings)
    return VecFrameStack(vector, FRAME_STACK) if FRAME_STACK > 1 else vector
'''

WEIGHTS = '''
def load_parameters(model):
    """Put the parameters of the run into a fresh learner; nothing is unpickled."""
    _, parameters, variables = load_from_zip_file(MODEL, device=model.device, load_data=False)
    model.set_parameters(parameters, exact_match=True)
    for name in model._get_torch_save_params()[1]:
        variable = recursive_getattr(model, name)
        variable.data = variables[name].detach().to(variable){exploration}{noise}
'''

STATISTICS = '''
def read_statistics(training):
    """Read the statistics that observations were normalised with at the end of training."""
    found = unwrap_vec_normalize(training).obs_rms
    named = found if isinstance(found, dict) else {"": found}
    with np.load(NORMALISATION, allow_pickle=False) as arrays:
        for key, statistics in named.items():
            name = f"observation/{key}" if key else "observation"
            statistics.mean = arrays[f"{name}/mean"]
            statistics.var = arrays[f"{name}/variance"]
            statistics.count = float(arrays[f"{name}/count"])
'''

PLAY = '''
def play(model, vector, episodes):
    """Returns and lengths of so many episodes, of which each environment has a fixed share.

    An environment that is through with its share simulates nothing more.
    """
    random.seed(SAMPLING_SEED)
    model.action_space.np_random.bit_generator.state = np.random.PCG64(SAMPLING_SEED).state
    np.random.seed(SAMPLING_SEED)
    torch.manual_seed(SAMPLING_SEED)
    count = vector.num_envs
    left = [episodes // count + (i < episodes % count) for i in range(count)]
    for i, share in enumerate(left):
        vector.env_method("play", share, indices=i)
    found = [[] for _ in range(count)]
    observations, states, starts = vector.reset(), None, np.ones(count, dtype=bool)
    while any(left):{masks}
        actions, states = model.predict(
            observations, state=states, episode_start=starts, deterministic=DETERMINISTIC{extra}
        )
        observations, _, starts, infos = vector.step(actions)
        for i in np.flatnonzero(starts):
            left[i] -= 1
            found[i].append((infos[i]["episode"]["r"], infos[i]["episode"]["l"]))
    return [episode for own in found for episode in own]
'''

MAIN = '''
def main():
    """Play the final evaluation of the run, and compare."""
    torch.set_num_threads(THREADS)
    training = vectorised(TRAINING_SEEDS, training=True)
    if "--train" in sys.argv[1:]:
        model = build(training)
        model.learn(STEPS)
    else:
        model = build(training{room})
        load_parameters(model){read}
    vector = vectorised(EVALUATION_SEEDS){share}
    played = play(model, vector, len(RETURNS))
    for number, (value, length) in enumerate(played):
        print(f"episode {{number}}: return {{value!r}}, length {{length}}")
    mean = math.fsum(value for value, _ in played) / len(played)
    print(f"mean return {{mean!r}}, n = {{len(played)}} episodes of one run")
    recorded = list(zip(RETURNS, LENGTHS))
    differing = [i for i, pair in enumerate(zip(played, recorded)) if pair[0] != pair[1]]
    if not differing:
        print("These are the returns and lengths that the run recorded.")
        return 0
    value, length = recorded[differing[0]]
    print(f"{{len(differing)}} of them differ from what the run recorded:")
    print(f"episode {{differing[0]}} was: return {{value!r}}, length {{length}}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
'''
