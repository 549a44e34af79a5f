"""`nllb-predictor compare`: two engines side by side on the same lines."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nllb_predictor.commands.backends import how_of, open_backend
from nllb_predictor.commands.translate import chunks, read_lines
from nllb_predictor.errors import UsageError
from nllb_predictor.progress import ConsoleProgress


@dataclass(frozen=True)
class Difference:
    """A line on which the two do not agree."""

    number: int
    source: str
    one: str
    other: str


@dataclass(frozen=True)
class Comparison:
    """Both translations of every line."""

    sources: tuple[str, ...]
    one: tuple[str, ...]
    other: tuple[str, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Where the texts are not the same, by line number from 1."""
        rows = zip(self.sources, self.one, self.other, strict=True)
        return tuple(Difference(n, *row) for n, row in enumerate(rows, 1) if row[1] != row[2])

    @property
    def equal_share(self) -> float:
        """Share of lines with the same text."""
        return 1 - len(self.differences) / len(self.sources)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print. Raises PredictorError's family."""
    sources = read_lines(arguments.input)
    if not sources:
        raise UsageError(f"{arguments.input} has no lines.")
    references = None if arguments.reference is None else read_lines(arguments.reference)
    if references is not None and len(references) != len(sources):
        raise UsageError(f"The reference has {len(references)} lines, the input {len(sources)}.")
    chrf = None if references is None else _scorer()
    texts = [_translated(place, sources, arguments) for place in (arguments.one, arguments.other)]
    comparison = Comparison(tuple(sources), *texts)
    print(report(comparison, arguments.show))
    if chrf is not None and references is not None:
        for name, place, text in zip("AB", (arguments.one, arguments.other), texts, strict=True):
            print(f"chrF {name}: {chrf(text, references):.2f}  {place}")
    wanted = arguments.at_least
    return 1 if wanted is not None and comparison.equal_share < wanted else 0


def report(comparison: Comparison, show: int) -> str:
    """The text that a person reads."""
    differences = comparison.differences
    rows = []
    for each in differences[:show]:
        rows += [f"{each.number}: {each.source}", f"  A: {each.one}", f"  B: {each.other}"]
    if len(differences) > show:
        rows.append(f"… and {len(differences) - show} more")
    count = len(comparison.sources)
    rows.append(f"equal: {count - len(differences)} of {count} lines ({comparison.equal_share:.2%})")
    return "\n".join(rows)


def _translated(place: str, sources: Sequence[str], arguments: argparse.Namespace) -> tuple[str, ...]:
    backend = open_backend(place, arguments.model_name)
    how = how_of(arguments)
    texts: list[str] = []
    try:
        with ConsoleProgress().step(f"translate with {Path(place).name}", _size(sources)) as step:
            for chunk in chunks(sources):
                texts += [answer.text for answer in backend.translate(chunk, how)]
                step.advance(_size(chunk))
    finally:
        backend.close()
    return tuple(texts)


def _size(lines: Sequence[str]) -> int:
    return sum(len(line.encode()) + 1 for line in lines)


def _scorer() -> Any:
    """chrF of texts against references, 0 to 100. Raises UsageError where the library is missing."""
    try:
        import sacrebleu
    except ImportError:
        raise UsageError(
            "chrF is computed by sacrebleu, which is not installed.", hint="pip install sacrebleu"
        ) from None
    return lambda texts, references: sacrebleu.corpus_chrf(list(texts), [list(references)]).score
