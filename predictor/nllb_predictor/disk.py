"""Folders that appear whole or not at all, and disk errors in words.

A reader must never meet half a model: work goes into a hidden sibling of the target, which takes the target's name by
one rename at the end. What a killed process left is removed by the next one that works beside it; a lock on the
folder itself tells the dead from the living, since process numbers are used again.
"""

import errno
import fcntl
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nllb_predictor.errors import DestinationInUse, NoSpace
from nllb_predictor.progress import size_text

_FULL = (errno.ENOSPC, errno.EDQUOT)
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turns a full or closed disk under `path` into NoSpace or DestinationInUse; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise NoSpace(f"The disk of {path} is full ({_free_text(path)} free).") from error
        if error.errno in _CLOSED:
            raise DestinationInUse(f"{path} cannot be written ({error.strerror}).") from error
        raise


def require_space(path: Path, needed: int, what: str) -> None:
    """Raises NoSpace if the disk of `path` has less than `needed` bytes free: better before the work than after."""
    free = _free(path)
    if free is not None and free < needed:
        raise NoSpace(f"{what} needs {size_text(needed)} in {path}, which has {size_text(free)} free.")


@contextmanager
def whole_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """A new hidden folder that becomes `target` if the block ends well, and vanishes otherwise.

    Raises DestinationInUse if `target` exists and is not an empty folder, unless `replace`.
    """
    if not replace:
        _require_free(target)
    with scratch_folder(target.parent, target.name) as work, disk_errors(target):
        yield work
        _sync(work)
        _take_name(work, target, replace)


@contextmanager
def scratch_folder(parent: Path, name: str) -> Iterator[Path]:
    """A new hidden folder inside `parent` that is removed at the end, unless it was renamed.

    Folders of the same name whose process has died are removed first.
    """
    with disk_errors(parent):
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent, name)
        work = parent / f".{name}.{secrets.token_hex(4)}.partial"
        work.mkdir(mode=0o755)
    lock = _locked(work)
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def _require_free(target: Path) -> None:
    if target.is_dir() and not any(target.iterdir()):
        return
    if target.exists() or target.is_symlink():
        raise DestinationInUse(
            f"{target} exists already.", hint="Choose another name, or replace it with --force."
        )


def _take_name(work: Path, target: Path, replace: bool) -> None:
    """Rename the finished folder. An old target steps aside first: a folder cannot be renamed over a full one."""
    aside = None
    if not replace:
        # Another process may have finished the same in the meantime.
        _require_free(target)
    elif target.exists() and any(target.iterdir()):
        aside = target.parent / f".{target.name}.{secrets.token_hex(4)}.partial"
        target.rename(aside)
    work.rename(target)
    sync_path(target.parent)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)


def _remove_abandoned(parent: Path, name: str) -> None:
    """Remove hidden folders of this name that no living process holds."""
    for folder in parent.glob(f".{glob.escape(name)}.*.partial"):
        lock = _locked(folder)
        if lock is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)


def _locked(folder: Path) -> int | None:
    """Descriptor of the folder with an exclusive lock on it, or None if another process holds one."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        sync_path(path)
    sync_path(folder)


def sync_path(path: Path) -> None:
    """Wait until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free(path: Path) -> int | None:
    for folder in (path, *path.parents):
        if folder.exists():
            return shutil.disk_usage(folder).free
    return None


def _free_text(path: Path) -> str:
    free = _free(path)
    return "unknown" if free is None else size_text(free)
