"""How Hydra reads yaml here: no file is parsed before it was checked."""

from functools import cache
from pathlib import Path
from typing import Any

from rlexp.config.sources import check_yaml, packaged_root
from rlexp.errors import ConfigError


@cache
def check_whatever_is_read() -> None:
    """Let Hydra check files when it reads them, wherever a defaults list has found them.

    A look at the usual places beforehand misses those in others.
    """
    from hydra._internal.core_plugins import file_config_source
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.plugins import Plugins

    class FileConfigSource(file_config_source.FileConfigSource):
        """A folder of yaml files."""

        def load_config(self, config_path: str) -> Any:
            """Read a file that was checked."""
            _check(self.path, config_path, self._normalize_file_name(config_path))
            return super().load_config(config_path)

    Plugins.instance()  # It would register its own class behind ours.
    SourcesRegistry.instance().types[FileConfigSource.scheme()] = FileConfigSource


def _check(folder: str, name: str, file: str) -> None:
    if ".." in Path(name).parts or Path(name).is_absolute():
        raise ConfigError(f"the yaml {name!r} lies outside of {folder}: put it into conf/")
    path = Path(folder, file)
    if path.is_file() and not path.resolve().is_relative_to(packaged_root()):
        check_yaml(path)
