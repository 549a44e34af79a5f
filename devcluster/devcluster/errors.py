"""Everything that devcluster can fail with.

DevclusterError
├── UsageError            the caller asked for something that cannot be            exit 2
├── HostUnfit             this machine lacks something that we can't add           exit 3
├── CommandFailed         a program that we ran ended with an error                exit 4
├── NotReady              a part did not become ready in its time     retryable    exit 5
└── NotRunning            the cluster is not up                                    exit 6
"""

from typing import ClassVar


class DevclusterError(Exception):
    """Base of all errors; `reason` is a constant word, `exit_code` what the CLI ends with."""

    reason: ClassVar[str] = "Failed"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False


class UsageError(DevclusterError):
    """The caller asked for something that cannot be, e.g. an unknown program."""

    reason = "Usage"
    exit_code = 2


class HostUnfit(DevclusterError):
    """The machine lacks something that devcluster can't add: Linux, root, Go, room on the disk."""

    reason = "HostUnfit"
    exit_code = 3


class CommandFailed(DevclusterError):
    """A program ended with an error; the message ends with the last lines that it wrote."""

    reason = "CommandFailed"
    exit_code = 4

    def __init__(self, command: list[str], returncode: int, output: str) -> None:
        self.command = command
        self.returncode = returncode
        self.output = output
        tail = "\n".join(output.strip().splitlines()[-25:])
        super().__init__(f"{' '.join(command)!r} ended with {returncode}\n{tail}")


class NotReady(DevclusterError):
    """A part did not become ready in its time."""

    reason = "NotReady"
    exit_code = 5
    retryable = True


class NotRunning(DevclusterError):
    """The cluster is not up, and the command needs it."""

    reason = "NotRunning"
    exit_code = 6
