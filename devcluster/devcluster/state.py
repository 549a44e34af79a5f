"""The folder of a running cluster. It is removed as a whole, so it carries a mark, and nothing unmarked is removed."""

import shutil

from devcluster.errors import UsageError
from devcluster.settings import Settings

MARK = ".serval-live-devcluster"


def create(settings: Settings) -> None:
    """An empty, marked folder. Raises UsageError where the folder holds something of somebody else."""
    remove(settings)
    settings.state.mkdir(parents=True)
    (settings.state / MARK).touch()


def remove(settings: Settings) -> None:
    """Removes the folder if it is there. Raises UsageError where it holds something of somebody else."""
    folder = settings.state
    if not folder.exists():
        return
    if not (folder / MARK).exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} holds no cluster; choose another folder with SERVAL_LIVE_STATE")
    shutil.rmtree(folder)
