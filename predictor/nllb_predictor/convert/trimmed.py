"""A checkpoint with fewer tokens: the texts are read and counted, the small files rewritten, the rows selected.

The checkpoint's folder is never changed. The rewritten files stand in a scratch folder, so that everything after
(writing, self-test, manifest) works on a folder and a checkpoint as always. What is gone is written beside the model,
and a check of its own proves that kept rows are the original's and that the texts are cut as before.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from nllb_predictor.convert.checkpoint import Checkpoint
from nllb_predictor.convert.ct2file import ModelFile
from nllb_predictor.convert.forward import Sentence
from nllb_predictor.convert.manifest import Check, Sha256, VocabularyTrim
from nllb_predictor.convert.names import CONFIG_FILE, GENERATION_FILE, SERVED_FILES, TOKENIZER_FILE
from nllb_predictor.convert.parameters import FileParameters
from nllb_predictor.convert.rest import Rest, fit_rest
from nllb_predictor.convert.tensors import Floats, NamedRows, take
from nllb_predictor.convert.trim import (
    Choice,
    Need,
    choose,
    only_kept,
    renumbered,
    trimmed_tokenizer,
    unseen_share,
)
from nllb_predictor.convert.vocabulary import SpecialFacts, Vocabulary
from nllb_predictor.errors import LanguageNotInModel, SelfTestFailed, UsageError
from nllb_predictor.jsonfiles import read_json_object
from nllb_predictor.progress import Progress
from nllb_predictor.text.normalise import normalise_punctuation
from nllb_predictor.text.tokenise import TokenizerConfig

DROPPED_FILE = "dropped-tokens.json"
"""Beside the model: a JSON list of the tokens that are gone, in the order of their old ids."""

_LINES = 4096
"""Lines that are tokenized in one call."""

_SAMPLE = 200
"""Rows and lines that the check looks at."""

_PIECES = 100
"""Pieces of a line that the fit of the rest looks at."""

_ROW_TOLERANCE = 0.02
"""Of the largest magnitude: well above what any quantization rounds, far below how much two rows differ."""


@dataclass(frozen=True)
class TrimRequest:
    """What decides which tokens stay."""

    texts: tuple[Path, ...]
    """UTF-8, one segment a line, in either language of the pair: training text, as much as there is."""
    minimum_count: int = 1
    """Tokens that the texts use less often are dropped."""
    languages: tuple[str, ...] = ()
    """Codes to keep besides the pair's."""

    def digests(self) -> tuple[Sha256, ...]:
        """SHA-256 of each text. Raises UsageError for a text that cannot be read."""
        return tuple(Sha256(hashlib.sha256(_read(path)).hexdigest()) for path in self.texts)

    def digest8(self) -> str:
        """First 8 hexadecimal digits of a SHA-256 over everything here: what stands in the artifact's options."""
        facts = {
            "texts": sorted(self.digests()),
            "minimumCount": self.minimum_count,
            "languages": sorted(self.languages),
        }
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Original:
    """The checkpoint before: its folder, tokens and ids."""

    folder: Path
    vocabulary: Vocabulary
    facts: SpecialFacts


@dataclass(frozen=True)
class Trimmed:
    """The checkpoint after, and what the manifest says of it."""

    folder: Path
    """The rewritten small files; weights are not in it."""
    checkpoint: Checkpoint
    choice: Choice
    record: VocabularyTrim
    check: Callable[[Path], Check] = field(repr=False)
    """Proves a written model folder. Raises SelfTestFailed."""


@dataclass(frozen=True)
class _Selected:
    """Some rows of a matrix, read where they lie, and new ones behind them."""

    whole: NamedRows
    ids: Any
    more: Floats

    @property
    def name(self) -> str:
        return self.whole.name

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.ids) + len(self.more), self.whole.shape[1]

    def rows(self, start: int, stop: int) -> Floats:
        kept = len(self.ids)
        more = self.more[max(0, start - kept) : max(0, stop - kept)]
        if start >= kept:
            return more
        return np.concatenate([take(self.whole, self.ids[start:stop]), more])


class TrimmedCheckpoint(Checkpoint):
    """A checkpoint of which only some rows of embedding and projection are used."""

    def __init__(self, folder: Path, ids: Sequence[int], rest: Rest) -> None:
        super().__init__(folder)
        rows = np.asarray(ids, np.int64)
        bias = super().logit_bias()
        kept = np.zeros(len(rows), np.float32) if bias is None else bias[rows]
        self._bias = np.concatenate([kept, rest.bias])
        self.whole = self.embeddings
        tied = self.projection is self.embeddings
        # The rows that stand for dropped tokens are never read as input.
        unread = rest.weights if tied else np.zeros_like(rest.weights)
        self.embeddings = _Selected(self.embeddings, rows, unread)
        self.projection = self.embeddings if tied else _Selected(self.projection, rows, rest.weights)

    def logit_bias(self) -> Floats | None:
        return self._bias if self._bias.any() else None


def trim(original: Original, request: TrimRequest, scratch: Path, progress: Progress) -> Trimmed:
    """Choose, rewrite, select. Raises UsageError, LanguageNotInModel and what reading a checkpoint raises."""
    codes = _codes(original.facts, request)
    backend = tokenizers.Tokenizer.from_file(str(original.folder / TOKENIZER_FILE))
    segments, counts = _counted(backend, request, progress)
    document = read_json_object(original.folder / TOKENIZER_FILE)
    config = TokenizerConfig.from_folder(original.folder)
    roles = frozenset(config.roles.values()) & set(original.vocabulary.tokens)
    choice = choose(
        document, original.vocabulary, Need(roles, codes, counts, minimum_count=request.minimum_count)
    )
    scratch.mkdir()
    _rewrite(original.folder, scratch, document, choice)
    rest = _rest(original, choice, backend, request)
    checkpoint = TrimmedCheckpoint(original.folder, choice.ids, rest)
    record = VocabularyTrim(
        kept=len(choice.ids),
        dropped=len(choice.dropped),
        minimum_count=request.minimum_count,
        segments=segments,
        unseen_share=round(unseen_share(counts), 8),
        texts=request.digests(),
        kept_sha256=Sha256(hashlib.sha256("\n".join(choice.tokens).encode()).hexdigest()),
        dropped_file=DROPPED_FILE,
        rest_rows=rest.rows,
    )

    def check(model: Path) -> Check:
        differing = _check_texts(backend, scratch, choice, request)
        _check_rows(model, checkpoint, choice)
        return Check(
            "vocabulary-trim",
            f"{record.kept} of {record.kept + record.dropped} tokens, {segments} segments read, {differing} of the"
            f" first {_LINES} of each text cut otherwise, unseen pieces expected {record.unseen_share:.2%}, dropped"
            f" tokens' mean probability {rest.share:.1e}, kept by {rest.rows} rows to {rest.error:.1e}",
        )

    return Trimmed(scratch, checkpoint, choice, record, check)


def write_dropped(folder: Path, choice: Choice) -> None:
    """The list of what is gone, beside the model."""
    content = json.dumps(list(choice.dropped), ensure_ascii=False, indent=0)
    (folder / DROPPED_FILE).write_text(content + "\n", encoding="utf-8")


def _codes(facts: SpecialFacts, request: TrimRequest) -> frozenset[str]:
    languages = facts.languages
    if languages.source is None or languages.target is None:
        raise UsageError(
            "A vocabulary is trimmed for one pair, and this model names none.",
            hint="Give --source-language and --target-language.",
        )
    for code in request.languages:
        if code not in languages.all:
            raise LanguageNotInModel(f"The model has no language code {code!r} to keep.")
    return frozenset({languages.source, languages.target, *request.languages})


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"The text {path} cannot be read ({error.strerror}).") from error


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in _read(path).decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise UsageError(f"The text {path} is not UTF-8 ({error.reason} at byte {error.start}).") from error


def _batches(lines: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(lines), _LINES):
        yield lines[start : start + _LINES]


def _counted(backend: Any, request: TrimRequest, progress: Progress) -> tuple[int, Counter[str]]:
    """Segments, and how often each token occurs: in the text as it is, as a target is, and normalised, as a source is
    read; the larger of both counts."""
    plain: Counter[str] = Counter()
    read: Counter[str] = Counter()
    segments = 0
    with progress.step("count tokens", sum(len(_read(path)) for path in request.texts)) as step:
        for path in request.texts:
            for batch in _batches(_lines(path)):
                segments += len(batch)
                for counter, texts in ((plain, batch), (read, [normalise_punctuation(t) for t in batch])):
                    for encoding in backend.encode_batch(texts, add_special_tokens=False):
                        counter.update(encoding.tokens)
                step.advance(sum(len(line.encode()) for line in batch))
    if not segments:
        raise UsageError(
            "A vocabulary is trimmed to what texts use, and there is no text.",
            hint="Give the pair's training text with --keep-text.",
        )
    return segments, plain | read


def _rest(original: Original, choice: Choice, backend: Any, request: TrimRequest) -> Rest:
    """What stands for the dropped tokens, fitted on some lines of the texts read as if they were translations."""
    checkpoint = Checkpoint(original.folder)
    facts, ids = original.facts, original.vocabulary.id
    source, target, end = facts.languages.source, facts.languages.target, facts.special.eos
    if source is None or target is None:
        raise AssertionError("a trim without a pair was refused before")
    wanted, steps, sentences = max(1000, 3 * checkpoint.network.width), 0, []
    for text in _spread([line for path in request.texts for line in _lines(path)]):
        pieces = backend.encode_batch([text], add_special_tokens=False)[0].ids[:_PIECES]
        read = (ids(source), *pieces, end)
        sentences.append(Sentence(read, (facts.special.decoder_start, ids(target), *pieces)))
        steps += len(pieces) + 1
        if steps >= wanted:
            break
    dropped = np.setdiff1d(np.arange(checkpoint.rows), choice.ids)
    return fit_rest(checkpoint, dropped, sentences)


def _spread(lines: list[str]) -> Iterator[str]:
    """The lines in an order whose every beginning is spread over the whole: the texts may be sorted by book."""
    stride = 64
    for first in range(stride):
        yield from lines[first * 37 % stride :: stride]


def _rewrite(folder: Path, scratch: Path, document: dict[str, Any], choice: Choice) -> None:
    """The small files with the new ids."""
    kept = {token: new for new, token in enumerate(choice.tokens)}
    _write(scratch / TOKENIZER_FILE, trimmed_tokenizer(document, choice))
    for name in (CONFIG_FILE, GENERATION_FILE):
        if (folder / name).is_file():
            _write(scratch / name, renumbered(read_json_object(folder / name), choice))
    for name in set(SERVED_FILES) - {TOKENIZER_FILE, GENERATION_FILE}:
        if (folder / name).is_file():
            stored = read_json_object(folder / name)
            if name == "added_tokens.json":
                _write(scratch / name, {token: kept[token] for token in stored if token in kept})
            else:
                _write(scratch / name, only_kept(stored, choice))


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def _check_texts(before: Any, scratch: Path, choice: Choice, request: TrimRequest) -> int:
    """How many lines are cut otherwise than before: none but those that use a dropped token, or the trim is wrong."""
    after = tokenizers.Tokenizer.from_file(str(scratch / TOKENIZER_FILE))
    for new, token in enumerate(choice.tokens):
        if after.token_to_id(token) != new:
            raise SelfTestFailed(
                f"The trimmed tokenizer gives {token!r} the id {after.token_to_id(token)}, not {new}."
            )
    kept, differing = frozenset(choice.tokens), 0
    for path in request.texts:
        lines = _lines(path)[:_LINES]
        pairs = zip(
            before.encode_batch(lines, add_special_tokens=False),
            after.encode_batch(lines, add_special_tokens=False),
            strict=True,
        )
        for old, new_one in pairs:
            if old.tokens != new_one.tokens:
                differing += 1
                if kept.issuperset(old.tokens):
                    raise SelfTestFailed(
                        "The trimmed tokenizer cuts a text otherwise although all its pieces are kept."
                    )
    return differing


def _check_rows(model: Path, checkpoint: TrimmedCheckpoint, choice: Choice) -> None:
    """A sample of the written rows, by token name, against the original's rows by old id."""
    names = json.loads((model / "shared_vocabulary.json").read_bytes())
    written = FileParameters(ModelFile(model / "model.bin"), checkpoint.network).embedding
    places = np.linspace(0, len(choice.ids) - 1, min(_SAMPLE, len(choice.ids))).astype(int).tolist()
    wanted = take(checkpoint.whole, np.asarray(choice.ids)[places])
    allowed = _ROW_TOLERANCE * float(np.abs(wanted).max())
    for place, row in zip(places, wanted, strict=True):
        token = choice.tokens[place]
        if names[place] != token:
            raise SelfTestFailed(f"Row {place} is named {names[place]!r}, not {token!r}.")
        if np.abs(written.rows(place, place + 1)[0] - row).max() > allowed:
            raise SelfTestFailed(f"The row of {token!r} is not the checkpoint's.")
