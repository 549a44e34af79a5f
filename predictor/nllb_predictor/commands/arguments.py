"""The command lines of these commands, apart from what they do: `serve` must not pay for importing them."""

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nllb_predictor import settings

TRANSLATE = """\
Translate a line, standard input or a file, one segment a line; the answer has as many lines.

  nllb-predictor translate --model ./model "In the beginning God created the heaven and the earth."
  nllb-predictor translate --url http://localhost:8080 --input verses.txt --output verses.spa.txt
  nllb-predictor translate --model ./model --hypotheses 4 < verses.txt

An interrupted run with --output goes on where it ended when the same command is given again. --json writes one object
a line: translation, score, alternatives and warnings. Warnings go to standard error otherwise.
"""

COMPARE = """\
Translate a file with two engines and show where they differ. Each is a running server's URL or a model to load here.

  nllb-predictor compare ./model ./model-trimmed --input verses.txt
  nllb-predictor compare http://localhost:8080 ./model --input verses.txt --reference verses.spa.txt

With --reference, chrF of both (needs sacrebleu: pip install sacrebleu). The exit code is 0 whatever differs; with
--at-least 0.99 it is 1 where fewer lines are equal.
"""

DOCTOR = """\
Look at everything that `serve` needs, with the same flags and environment, and say what to do about each trouble.

  nllb-predictor doctor ./model
  nllb-predictor doctor --model-uri s3://bucket/artifacts/66c4a1f09d3e5b7a8c0f1e21/r3/ct2v1-1a2b3c4d/ \\
      --s3-endpoint https://minio.example:9000 --s3-ca-file ca.pem

Exit code: 0 where nothing stands in the way (warnings are allowed), 1 where something does.
"""


def add_commands(subparsers: Any) -> None:
    """Add `translate`, `compare` and `doctor` to the command line's subcommands."""
    _add_translate(_parser(subparsers, "translate", "translate a line or a file", TRANSLATE))
    _add_compare(_parser(subparsers, "compare", "two models side by side on a file", COMPARE))
    doctor = _parser(subparsers, "doctor", "check settings, store, model and machine before serving", DOCTOR)
    doctor.add_argument("model", nargs="?", metavar="MODEL", help="short for --model-uri MODEL")
    settings.add_arguments(doctor)


def _parser(subparsers: Any, name: str, short: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=short, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(run=_late(f"nllb_predictor.commands.{name}"))
    return parser


def _late(module: str) -> Callable[[argparse.Namespace], int]:
    """The module's `run`, imported when it is called."""

    def run(arguments: argparse.Namespace) -> int:
        code: int = importlib.import_module(module).run(arguments)
        return code

    return run


def _add_translate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="?", metavar="TEXT", help="one segment; default: standard input")
    places = parser.add_mutually_exclusive_group(required=True)
    places.add_argument("--model", metavar="MODEL", help="folder, archive or s3:// artifact, loaded here")
    places.add_argument("--url", metavar="URL", help="running server, such as http://localhost:8080")
    _add_how(parser)
    parser.add_argument("--hypotheses", metavar="N", type=int, default=1, help="alternatives; means --json")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("-i", "--input", metavar="FILE", type=Path, help="UTF-8, one segment a line")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="default: standard output")
    parser.add_argument("--force", action="store_true", help="start --output anew")


def _add_compare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("one", metavar="A", help="URL or model")
    parser.add_argument("other", metavar="B", help="URL or model")
    parser.add_argument(
        "-i", "--input", metavar="FILE", type=Path, required=True, help="UTF-8, one segment a line"
    )
    parser.add_argument("--reference", metavar="FILE", type=Path, help="right translations, line by line")
    parser.add_argument(
        "--show", metavar="N", type=int, default=20, help="differing lines shown (default 20)"
    )
    parser.add_argument(
        "--at-least", metavar="SHARE", type=float, help="exit with 1 below this share of equals"
    )
    _add_how(parser)


def _add_how(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source-language", metavar="TAG", help="code or tag; default: the engine's own")
    parser.add_argument("--target-language", metavar="TAG", help="code or tag; default: the engine's own")
    parser.add_argument("--beam-size", metavar="N", type=int, help="default: the server's, usually 4")
    parser.add_argument(
        "--model-name", metavar="NAME", help="with a URL: its v2 model name; default: the first"
    )
