"""`nllb-predictor convert`: arguments to a request, and a failure to a line, a termination message and an exit code."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nllb_predictor.convert.manifest import Identity, Options, Quantization
from nllb_predictor.errors import UsageError
from nllb_predictor.progress import ConsoleProgress
from nllb_predictor.store.settings import StoreSettings

if TYPE_CHECKING:
    from nllb_predictor.convert.trimmed import TrimRequest

SOURCE_URL_VARIABLE = "SERVAL_LIVE_SOURCE_URL"

DESCRIPTION = """\
Convert a HuggingFace NLLB checkpoint to a CTranslate2 model, without torch, and prove that it computes the same.

SRC  a folder, a .tar.gz as Serval stores it, s3://bucket/key.tar.gz, s3://bucket/folder/, an https URL,
     or '-' for the URL in SERVAL_LIVE_SOURCE_URL (a presigned URL is a secret and should show in no process list)
DST  a folder that does not exist yet, or s3://bucket/.../<artifactKey>/; either appears whole or not at all

  nllb-predictor convert ./checkpoint ./model
  nllb-predictor convert s3://models/66c4a1f09d3e5b7a8c0f1e21_3.tar.gz ./model --quantization float16
  nllb-predictor convert - s3://artifacts/home/66c4a1f09d3e5b7a8c0f1e21/r3/ct2v1-1a2b3c4d/ \\
      --engine-id 66c4a1f09d3e5b7a8c0f1e21 --revision 3 --attempt a1-7f3c9e

A fine-tuned engine uses few of its 256,206 tokens. Trimming keeps those that the pair's texts use (and all that must
stay); it makes the model smaller and faster, and what is gone is listed beside it:

  nllb-predictor convert ./checkpoint ./model --trim-vocabulary --keep-text train.src.txt train.trg.txt

S3 is reached by --s3-endpoint, --s3-region and --s3-ca-file or their environment twins, with AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY. A source in another store, or with keys of its own, has the same variables with a prefix:
SERVAL_LIVE_SOURCE_S3_ENDPOINT, _S3_REGION, _S3_CA_FILE, _AWS_ACCESS_KEY_ID, _AWS_SECRET_ACCESS_KEY and
_AWS_SESSION_TOKEN. One that is set makes it a store of its own; keys left out are the plain ones.
Exit codes and reasons: docs/conversion.md.
"""


def add_convert_command(subparsers: Any) -> None:
    """Add `convert` to the command line's subcommands."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "convert",
        help="turn a checkpoint into a model that can be served",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="SRC", help="checkpoint: folder, archive, URL, or -")
    parser.add_argument("destination", metavar="DST", help="new folder, or s3:// folder of the artifact")
    parser.add_argument(
        "--quantization",
        metavar="TYPE",
        choices=[each.value for each in Quantization],
        default=Quantization.INT8.value,
        help=f"how weights are stored: {', '.join(Quantization)} (default int8)",
    )
    parser.add_argument("--force", action="store_true", help="replace DST if it is a folder that exists")
    parser.add_argument(
        "--work-dir",
        metavar="DIR",
        type=Path,
        help="where archives are unpacked [SERVAL_LIVE_CACHE_DIR; default TMPDIR or /tmp]",
    )
    _add_trim(parser.add_argument_group("vocabulary"))
    _add_identity(parser.add_argument_group("whose model it is"))
    add_store_options(parser)
    parser.set_defaults(run=run)


def _add_identity(group: Any) -> None:
    group.add_argument("--engine-id", metavar="ID", help="Serval's engine id; goes into the manifest")
    group.add_argument("--revision", type=int, metavar="N", help="Serval's model revision; with --engine-id")
    group.add_argument("--artifact-key", metavar="KEY", help="checked against engine, revision and options")
    group.add_argument(
        "--attempt",
        default=".",
        metavar="NAME",
        help="name of the folder below DST in S3 (default: a new one)",
    )
    group.add_argument("--source-language", metavar="CODE", help="Flores-200 code; goes before the files")
    group.add_argument("--target-language", metavar="CODE", help="with --source-language")
    group.add_argument("--base", metavar="SRC", help="checkpoint to convert where SRC is an empty archive")


def _add_trim(group: Any) -> None:
    group.add_argument(
        "--trim-vocabulary", action="store_true", help="keep only what one pair needs; with --keep-text"
    )
    group.add_argument(
        "--keep-text",
        metavar="FILE",
        nargs="+",
        type=Path,
        default=[],
        action="extend",
        help="UTF-8 text of both languages, a segment a line: the training text, as much as there is",
    )
    group.add_argument(
        "--keep-from",
        metavar="N",
        type=int,
        default=1,
        help="drop tokens that the texts use less than N times (default 1)",
    )
    group.add_argument(
        "--keep-language",
        metavar="CODE",
        action="append",
        default=[],
        help="keep this code besides the pair's, with its script's characters; may be repeated",
    )


def add_store_options(parser: argparse.ArgumentParser) -> None:
    """The S3 options, with their environment twins."""
    group = parser.add_argument_group("S3")
    group.add_argument("--s3-endpoint", metavar="URL", help="S3-compatible server [SERVAL_LIVE_S3_ENDPOINT]")
    group.add_argument(
        "--s3-region", metavar="NAME", help="region [SERVAL_LIVE_S3_REGION; default us-east-1]"
    )
    group.add_argument("--s3-ca-file", metavar="PEM", help="CA of the endpoint [SERVAL_LIVE_S3_CA_FILE]")


def store_settings(arguments: argparse.Namespace) -> StoreSettings:
    """Settings from the environment, overridden by flags."""
    environ = dict(os.environ)
    for name in ("s3_endpoint", "s3_region", "s3_ca_file"):
        if value := getattr(arguments, name):
            environ[f"SERVAL_LIVE_{name.upper()}"] = value
    return StoreSettings.from_env(environ)


def run(arguments: argparse.Namespace) -> int:
    """Convert; 0 where it went well. Raises PredictorError's family, which the command line turns into an exit."""
    # Two checks of the self-test run beside each other; a matrix product that waits for threads of its own as well
    # costs both. The library reads this when it is first imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import ctranslate2

    from nllb_predictor.convert.run import Request, Surroundings, convert, default_work_dir

    # Falling back to another arithmetic is normal on a converting machine and said in the manifest.
    ctranslate2.set_log_level(40)
    identity = Identity(arguments.engine_id, arguments.revision, arguments.artifact_key, arguments.attempt)
    trim = _trim(arguments)
    request = Request(
        source=_source(arguments.source),
        destination=arguments.destination,
        options=Options(Quantization(arguments.quantization), trim.digest8() if trim else False),
        identity=identity,
        languages=(arguments.source_language, arguments.target_language),
        base=arguments.base,
        replace=arguments.force,
        trim=trim,
    )
    around = Surroundings(
        work_dir=arguments.work_dir or default_work_dir(),
        settings=store_settings(arguments),
        source_settings=StoreSettings.source_from_env(),
        progress=ConsoleProgress(),
        image=os.environ.get("SERVAL_LIVE_IMAGE") or None,
    )
    done = convert(request, around)
    for check in done.manifest.self_test.checks:
        print(f"self-test {check.name}: {check.detail}")
    print(f"converted to {done.uri}, manifest {done.manifest_sha256}")
    return 0


def _trim(arguments: argparse.Namespace) -> "TrimRequest | None":
    """What to keep. Raises UsageError for halves that do not fit together."""
    from nllb_predictor.convert.trimmed import TrimRequest

    if not arguments.trim_vocabulary:
        if arguments.keep_text or arguments.keep_language or arguments.keep_from != 1:
            raise UsageError("--keep-text, --keep-from and --keep-language belong to --trim-vocabulary.")
        return None
    if not arguments.keep_text:
        raise UsageError(
            "--trim-vocabulary keeps what texts use, and there is no text.",
            hint="Give the pair's training text with --keep-text.",
        )
    if arguments.keep_from < 1:
        raise UsageError(f"--keep-from must be at least 1, not {arguments.keep_from}.")
    return TrimRequest(tuple(arguments.keep_text), arguments.keep_from, tuple(arguments.keep_language))


def _source(named: str) -> str:
    if named != "-":
        return named
    url = os.environ.get(SOURCE_URL_VARIABLE, "")
    if not url:
        raise UsageError(f"SRC is '-', but {SOURCE_URL_VARIABLE} is not set.")
    return url
