"""`nllb-predictor translate`: a line, standard input or a file, by a server or by a model loaded here."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from nllb_predictor.commands.backends import (
    CHUNK,
    Backend,
    How,
    Line,
    how_of,
    open_backend,
)
from nllb_predictor.commands.outfile import Job, OutputFile
from nllb_predictor.errors import UsageError
from nllb_predictor.progress import ConsoleProgress


def run(arguments: argparse.Namespace) -> int:
    """Translate; 0 where every line has its answer. Raises PredictorError's family."""
    if arguments.text is not None and arguments.input is not None:
        raise UsageError("Give either TEXT or --input.")
    how = how_of(arguments, arguments.hypotheses)
    lines = _lines(arguments)
    place = arguments.url or arguments.model
    as_json = arguments.json or how.hypotheses > 1
    output = None
    if arguments.output is not None:
        job = Job(lines, f"{place} {arguments.model_name} {how} json={as_json}")
        output = OutputFile(arguments.output, job, force=arguments.force)
        if output.done:
            print(f"going on after line {output.done} of {len(lines)}", file=sys.stderr)
    done = output.done if output else 0
    if done < len(lines):
        backend = open_backend(place, arguments.model_name)
        try:
            _translate(backend, lines[done:], how, _Writer(output, as_json, done))
        finally:
            backend.close()
    if output is not None:
        output.finish()
    return 0


class _Writer:
    """Writes answers as they come."""

    def __init__(self, output: OutputFile | None, as_json: bool, done: int) -> None:
        self._output, self._as_json, self._number = output, as_json, done

    def write(self, answers: Sequence[Line]) -> None:
        texts = [
            json.dumps(each.as_json(), ensure_ascii=False) if self._as_json else each.text for each in answers
        ]
        if self._output is not None:
            self._output.append(texts)
        else:
            sys.stdout.write("".join(text + "\n" for text in texts))
            sys.stdout.flush()
        for each in answers:
            self._number += 1
            if not self._as_json:
                for warned in each.warnings:
                    print(f"line {self._number}: {warned['kind']}: {warned['message']}", file=sys.stderr)


def _translate(backend: Backend, lines: Sequence[str], how: How, writer: _Writer) -> None:
    if len(lines) <= CHUNK:
        writer.write(backend.translate(lines, how))
        return
    size = sum(len(line.encode()) + 1 for line in lines)
    with ConsoleProgress().step(f"translate {len(lines)} lines", size) as step:
        for chunk in chunks(lines):
            writer.write(backend.translate(chunk, how))
            step.advance(sum(len(line.encode()) + 1 for line in chunk))


def chunks(lines: Sequence[str]) -> Iterator[Sequence[str]]:
    """The lines in runs of one call each."""
    for start in range(0, len(lines), CHUNK):
        yield lines[start : start + CHUNK]


def _lines(arguments: argparse.Namespace) -> list[str]:
    if arguments.text is not None:
        return [arguments.text]
    if arguments.input is not None:
        return read_lines(arguments.input)
    return split_lines(sys.stdin.buffer.read(), "standard input")


def read_lines(path: Path) -> list[str]:
    """Lines of a UTF-8 file, without their ends. Raises UsageError."""
    try:
        return split_lines(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}).") from error


def split_lines(content: bytes, name: str) -> list[str]:
    """Lines end with LF or CRLF and with nothing else: Unicode knows more ends, but no file is counted by them."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 ({error.reason} at byte {error.start}).") from error
    if not text:
        return []
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
