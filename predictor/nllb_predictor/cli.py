"""The command line `nllb-predictor`: one subcommand per job of the package.

Each subcommand lives with its part and is imported only when it is asked for; here are only the frame and the one way
in which a failure leaves: one line on stderr, the termination message, the error's exit code.
"""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from nllb_predictor.commands.arguments import add_commands
from nllb_predictor.convert.command import add_convert_command
from nllb_predictor.errors import NoMemory, PredictorError
from nllb_predictor.fetch import add_fetch_command
from nllb_predictor.server.command import add_serve_command
from nllb_predictor.server.termination import write as write_termination
from nllb_predictor.version import package_version

TERMINATION_LOG = "/dev/termination-log"


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="nllb-predictor", description="Convert, fetch, serve and try NLLB models."
    )
    top.add_argument("--version", action=_ShowVersion, nargs=0, help="show the version and leave")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    add_convert_command(subparsers)
    add_fetch_command(subparsers)
    add_serve_command(subparsers)
    add_commands(subparsers)
    return top


class _ShowVersion(argparse.Action):
    """Looks the version up only where it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *args: object, **kwargs: object) -> None:
        print(f"nllb-predictor {package_version()}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parsed = parser().parse_args(arguments)
    # Without this a stopped Job would leave its half-written folder to the next one.
    signal.signal(signal.SIGTERM, _leave)
    try:
        code: int = parsed.run(parsed)
    except PredictorError as error:
        return _fail(error)
    except MemoryError:
        return _fail(NoMemory("The process could not allocate more memory."))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        traceback.print_exc()
        return _fail(PredictorError(f"{type(error).__name__}: {error}"))
    return code


def _leave(number: int, frame: FrameType | None) -> None:
    """SIGTERM as an exception, so that every clean-up on the way out runs."""
    del frame
    raise SystemExit(128 + number)


def _fail(error: PredictorError) -> int:
    print(f"nllb-predictor: {error.reason}: {error}", file=sys.stderr)
    path = os.environ.get("SERVAL_LIVE_TERMINATION_LOG") or TERMINATION_LOG
    # Outside a container there is no such file, and nobody wants one in /dev.
    if "SERVAL_LIVE_TERMINATION_LOG" in os.environ or Path(path).exists():
        write_termination(path, error)
    return error.exit_code
