"""How JAX is set up for compiled algorithms: one thread, 32 bits, and where compiled code is kept.

`set_up` sets variables that JAX reads when it is imported; it imports nothing heavy.
"""

import importlib
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from rlexp.errors import ConfigError

FLAGS = "XLA_FLAGS"
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
"""Small networks gain nothing from threads, and runs fill the cores by their number."""
GPU_FLAGS = ("--xla_gpu_deterministic_ops=true", "--xla_gpu_autotune_level=0")
"""Without them, the kernels of a program would depend on timings and on the order of threads."""
KEEP_FROM = "0.5"
"""Seconds of compilation from which code is kept."""
MODULES = ("jax", "jax.numpy", "jax.experimental.serialize_executable")
"""What every compiled run imports of JAX."""
CONDUCTOR = "RLEXP_CONDUCTOR"
"""The variable with the descriptor through which a run reaches its conductor."""
CONDUCT = "rlexp.algorithms.compiled.conductor:conduct"
"""The function of the process that advances several runs together."""
FLAGS_SET = (ONE_THREAD, *GPU_FLAGS)
PROCESSORS = Path("/proc/cpuinfo")


def set_up(cache: Path) -> None:
    """Let JAX compile for one thread of the processor, and keep compiled code for later runs.

    Args:
        cache: The user's folder for caches. Code is kept for each kind of processor apart, because
            a processor with other features may not be able to execute it.
    """
    flags = os.environ.get(FLAGS, "")
    settings: Mapping[str, str] = {
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "0",
        FLAGS: flags if ONE_THREAD in flags else f"{flags} {ONE_THREAD}".lstrip(),
        "JAX_COMPILATION_CACHE_DIR": str(cache / "compiled" / processor_features()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": KEEP_FROM,
    }
    os.environ.update(settings)


def use_gpu() -> None:
    """Let JAX compute on a GPU from now on; called before its first array.

    Kernels are chosen without timing, and sum in a fixed order: other processes get the same bits.

    Raises:
        ConfigError: JAX finds no GPU.
    """
    import jax

    words = os.environ.get(FLAGS, "").split()
    os.environ[FLAGS] = " ".join([*words, *(flag for flag in GPU_FLAGS if flag not in words)])
    # Several processes share the GPU, and each would take three quarters of its memory at once.
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    jax.config.update("jax_platforms", "cuda,cpu")
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"compute.device=cuda: JAX finds no GPU ({reason}); install its version for GPUs "
            "(pip install 'jax[cuda13]'), or set compute.device=cpu"
        ) from error


def import_jax(cache: Path) -> None:
    """Import JAX with the settings of `set_up`, and start none of its threads.

    A process that forks runs may therefore call it: forks then need not import JAX themselves.
    Nothing happens where JAX is missing or broken.

    Args:
        cache: The user's folder for caches.
    """
    set_up(cache)
    # Where JAX is broken, the run that needs it reports that.
    with suppress(Exception):
        for name in MODULES:
            importlib.import_module(name)


def processor_features() -> str:
    """A digest of the instructions that the processor has, which decide what is compiled."""
    try:
        lines = PROCESSORS.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    # `flags` on x86, `Features` on ARM; other systems name no features, but their processor.
    features = next((n for n in lines if n.lower().startswith(("flags", "features"))), "")
    words = sorted(features.partition(":")[2].split()) or [platform.processor()]
    return sha256(" ".join([platform.machine(), *words]).encode()).hexdigest()[:12]


def compiler_flags() -> str:
    """The flags of the compiler that the user has set, without those that rlexp adds."""
    words = [word for word in os.environ.get(FLAGS, "").split() if word not in FLAGS_SET]
    return " ".join(words)
