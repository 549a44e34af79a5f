"""Builds the Go programs into the cache, once per version, and tells where they are.

One `go build` at a time on a machine (a file lock): a second caller waits and then finds the finished binaries.
"""

import fcntl
import functools
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import HostUnfit, UsageError
from devcluster.go_modules import RARE, GoModule, modules
from devcluster.progress import step
from devcluster.settings import Settings
from devcluster.shell import run
from devcluster.versions import Versions, load

_GET_GO = "install Go 1.26 or newer from https://go.dev/dl (the package `golang` of Debian 12 is older)"
_FETCHES_NEWER = (1, 21)
"""From this release on `go` fetches a newer one by itself where a module asks for it."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on a file, waiting for whoever has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _go_environment(module: GoModule) -> dict[str, str]:
    flags = os.environ.get("GOFLAGS", "").split()
    wanted = [flag for flag in flags if not flag.startswith("-mod")] + ["-mod=mod"]
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": " ".join(wanted), "GOWORK": "off"}


@functools.cache
def go_version() -> str:
    """The Go that builds here, e.g. go1.26.8. Raises HostUnfit where there is none, or one that is too old."""
    if shutil.which("go") is None:
        raise HostUnfit(f"there is no `go` on PATH; {_GET_GO}")
    return sufficient(run(["go", "env", "GOVERSION"]).strip())


def sufficient(version: str) -> str:
    """The same version. Raises HostUnfit for a Go that can't fetch the newer one which our modules ask for."""
    numbers = re.match(r"go(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < _FETCHES_NEWER:
        raise HostUnfit(f"{version} is too old to build Kubernetes; {_GET_GO}")
    return version


@dataclass(frozen=True)
class Programs:
    """The binaries of one set of versions."""

    settings: Settings
    versions: Versions

    @classmethod
    def default(cls) -> "Programs":
        """For the cache of this user and the pins of this checkout."""
        return cls(Settings(), load())

    def path(self, program: str) -> Path:
        """The binary, built first if need be. Raises UsageError for a program that no module has."""
        binary = self.expected_path(program)
        if not binary.exists():
            self._build(self._module_of(program), [program])
        return binary

    def expected_path(self, program: str) -> Path:
        """Where the binary lies once it is built."""
        return self._folder(self._module_of(program)) / program

    def _module_of(self, program: str) -> GoModule:
        for module in modules(self.versions).values():
            if program in dict(module.tools):
                return module
        raise UsageError(f"no module builds a program {program!r}")

    def build_all(self, only: Sequence[str] = ()) -> None:
        """Builds every program of the named modules (default: all but the rare) that the cache lacks."""
        known = modules(self.versions)
        for name in only or [each for each in known if each not in RARE]:
            if name not in known:
                raise UsageError(f"no module {name!r}; there are {', '.join(known)}")
            missing = [p for p, _ in known[name].tools if not (self._folder(known[name]) / p).exists()]
            if missing:
                self._build(known[name], missing)

    def source(self, module_name: str, root: str) -> Path:
        """Read-only folder with the source of a Go module, for its install manifests."""
        module = modules(self.versions)[module_name]
        work, environment = self._resolved(module), _go_environment(module)
        run(["go", "mod", "download", root], cwd=work, env=environment)
        return Path(run(["go", "list", "-m", "-f", "{{.Dir}}", root], cwd=work, env=environment).strip())

    def _folder(self, module: GoModule) -> Path:
        return self.settings.cache / "bin" / module.key(go_version())

    def _resolved(self, module: GoModule) -> Path:
        """The generated module with its requirements resolved; kept in the cache."""
        work = self.settings.cache / "gomod" / module.key(go_version())
        if (work / "go.mod").exists():
            return work
        work.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=work.parent) as scratch:
            fresh = Path(scratch) / "module"
            fresh.mkdir()
            (fresh / "go.mod").write_text(module.go_mod(), encoding="utf-8")
            if module.own_source:
                (fresh / "main.go").write_text(module.own_source, encoding="utf-8")
            else:
                with step(f"resolving the sources of {module.name} {module.version}"):
                    command = ["go", "get", "-tool", *module.packages()]
                    run(command, cwd=fresh, env=_go_environment(module))
            if not work.exists():  # somebody else may have been quicker
                fresh.rename(work)
        return work

    def _build(self, module: GoModule, programs: list[str]) -> None:
        with locked(self.settings.cache / "build.lock"):
            work = self._resolved(module)
            folder = self._folder(module)
            folder.mkdir(parents=True, exist_ok=True)
            flags = ["-s", "-w", *(f"-X {name}={value}" for name, value in module.link_variables)]
            for program in programs:
                if (folder / program).exists():  # another caller built it while we waited for the lock
                    continue
                with step(f"building {program} {module.version}"):
                    partial = folder / f".{program}"
                    command = ["go", "build", "-trimpath", "-ldflags", " ".join(flags), "-o", str(partial)]
                    run([*command, dict(module.tools)[program]], cwd=work, env=_go_environment(module))
                    partial.rename(folder / program)
