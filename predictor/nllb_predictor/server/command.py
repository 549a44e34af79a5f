"""`nllb-predictor serve`: flags and environment to a serving process, and its end to an exit code.

Loading starts before the server is imported, since a download takes longer than the import and needs none of it.
"""

import argparse
import logging
import os
import signal
import sys
from typing import Any, NoReturn

from nllb_predictor import settings as settings_module
from nllb_predictor.errors import PredictorError
from nllb_predictor.server import heap, logs, termination
from nllb_predictor.server.lifecycle import Lifecycle
from nllb_predictor.server.loading import LoadingThread
from nllb_predictor.settings import ServeSettings

log = logging.getLogger(__name__)

DESCRIPTION = """\
Serve one NLLB model over KServe v1 and v2, REST and gRPC.

The ports open before the model loads; /v2/health/ready answers 200 once the model is loaded, warmed up and its probe
sentences translate as recorded. Each flag has an environment twin, named in brackets; the flag goes first.

  nllb-predictor serve /path/to/model
  nllb-predictor serve --model-uri s3://bucket/artifacts/66c4a1f09d3e5b7a8c0f1e21/r3/ct2v1-1a2b3c4d/ \\
      --s3-endpoint https://minio.example:9000

  curl localhost:8080/v2/models/nllb/infer -d \\
      '{"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": ["In the beginning."]}]}'
"""


def add_serve_command(subparsers: Any) -> None:
    """Add `serve` to the command line's subcommands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "serve",
        help="serve a model over KServe v1 and v2, REST and gRPC",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="short for --model-uri MODEL")
    settings_module.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> NoReturn:
    """Serve until told to stop; the exit code is 0 after SIGTERM and the error's own after a failure."""
    born = Lifecycle()
    heap.share_arenas()
    # Process 1 of a container ignores SIGTERM until somebody handles it, and the server does only once it is up.
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
    flags = vars(arguments)
    if flags.get("model"):
        flags.setdefault("model_uri", flags["model"])
    log_file = os.environ.get(settings_module.variable("termination_log")) or ServeSettings.termination_log
    try:
        settings = settings_module.from_sources(flags)
        log_file = settings.termination_log
        logs.configure(settings.log_level, settings.log_format)
        log.info("settings: %s", " ".join(f"{key}={value}" for key, value in settings.printable().items()))
        loading = LoadingThread(settings, born)
        loading.start()
        _serve(settings, born, loading)
    except PredictorError as error:
        _leave(_told(error, log_file))
    except Exception as error:
        log.exception("unforeseen error")
        _leave(_told(PredictorError(f"{type(error).__name__}: {error}"), log_file))
    _leave(0)


def _told(error: PredictorError, log_file: str) -> int:
    """Write down why the process ends; its exit code."""
    termination.write(log_file, error)
    print(f"nllb-predictor serve: {error.reason}: {error}", file=sys.stderr)
    return error.exit_code


def _serve(settings: ServeSettings, lifecycle: Lifecycle, loading: LoadingThread) -> None:
    from nllb_predictor.server.app import NllbServer

    if lifecycle.failure is not None:
        raise lifecycle.failure
    NllbServer(settings, lifecycle, loading).run()


def _leave(code: int) -> NoReturn:
    """End the process without the interpreter's own end: threads of native libraries (a batch whose caller is gone,
    a model that still loads) may run on, and taking the interpreter from under them crashes."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
