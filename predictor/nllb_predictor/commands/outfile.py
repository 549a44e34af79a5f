"""A line-aligned output file that an interrupted run leaves behind and the next one goes on with.

Line n of the output belongs to line n of the input. Beside an unfinished output lies a small file that names what it
is an answer to; without it, or for another input or other settings, nothing is continued and nothing is overwritten.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nllb_predictor.disk import disk_errors
from nllb_predictor.errors import DestinationInUse


@dataclass(frozen=True)
class Job:
    """What an output is an answer to."""

    lines: Sequence[str]
    settings: str
    """Engine, languages and the rest, as text."""

    @property
    def digest(self) -> str:
        """SHA-256 of input and settings."""
        whole = json.dumps([self.settings, list(self.lines)], ensure_ascii=False)
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


class OutputFile:
    """The output of one job."""

    def __init__(self, path: Path, job: Job, *, force: bool = False) -> None:
        """Raises DestinationInUse for a file that is no unfinished output of this very job."""
        self._path, self._job = path, job
        self._mark = path.with_name(f".{path.name}.unfinished")
        if force:
            self._remove()
        self.done = self._begin()
        """Lines that are there already."""

    def _begin(self) -> int:
        if not self._path.exists():
            with disk_errors(self._path):
                self._mark.write_text(self._job.digest)
                self._path.touch()
            return 0
        if not self._mark.exists():
            raise DestinationInUse(f"{self._path} exists already.", hint="--force replaces it.")
        if self._mark.read_text() != self._job.digest:
            raise DestinationInUse(
                f"{self._path} is the unfinished output of another input or of other settings.",
                hint="Repeat the command that began it, or start again with --force.",
            )
        content = self._path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            # The last line was cut by whatever ended the run.
            with self._path.open("r+b") as file:
                file.truncate(len(whole))
        return min(whole.count(b"\n"), len(self._job.lines))

    def append(self, lines: Iterable[str]) -> None:
        """Write some more lines through to the file system. Raises NoSpace."""
        with disk_errors(self._path), self._path.open("ab") as file:
            file.write("".join(line + "\n" for line in lines).encode("utf-8", "replace"))

    def finish(self) -> None:
        """All lines are there."""
        self._mark.unlink(missing_ok=True)

    def _remove(self) -> None:
        self._path.unlink(missing_ok=True)
        self._mark.unlink(missing_ok=True)
