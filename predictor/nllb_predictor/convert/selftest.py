"""Proof, before anything is published, that the written model computes what the checkpoint computes.

Three checks, each against a second source. Token ids: the tokenizer library and the written vocabulary against
`tokenizer.json` read as plain JSON. Layers: every layer of the file alone, run by CTranslate2 in float32, against the
numpy forward pass on the original tensors rounded as the file stores them; they must agree to 1e-3, whatever the
quantization, so that no swapped or damaged tensor hides behind quantization error. Whole model: its output against
the forward pass on the unrounded originals. All of it needs no more memory than the converted model itself.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np

from nllb_predictor.convert.checkpoint import Checkpoint
from nllb_predictor.convert.ct2file import ModelFile
from nllb_predictor.convert.forward import Depth, Ending, Sentence, forward, greedy, log_softmax
from nllb_predictor.convert.manifest import Check, Probe, Quantization, SelfTest, TokenOrder
from nllb_predictor.convert.parameters import CheckpointParameters, FileParameters
from nllb_predictor.convert.quantize import PLANS, Stored
from nllb_predictor.convert.slices import SliceVocabulary, open_slice, slice_bytes
from nllb_predictor.convert.tensors import Floats
from nllb_predictor.convert.vocabulary import SpecialFacts, Vocabulary
from nllb_predictor.errors import SelfTestFailed
from nllb_predictor.probes import LIMIT, PROBE_TEXTS, Decoded, decode_probes
from nllb_predictor.progress import Progress
from nllb_predictor.text.tokenise import Tokenizer

LOGIT_TOLERANCE = 1e-3
"""Largest difference of a logit between two float32 computations of the same numbers."""

SCORE_TOLERANCE = 0.1
"""Largest difference of a score that quantization may make, in mean log-probability."""

STEPS = 5
"""Decoder steps that are compared, language token not counted."""

_PIECES = 200


@dataclass(frozen=True)
class Subject:
    """What is tested: a written model beside the checkpoint that it was made of."""

    checkpoint: Checkpoint
    vocabulary: Vocabulary
    facts: SpecialFacts
    quantization: Quantization
    folder: Path
    """Holds `model.bin`, `shared_vocabulary.json` and the tokenizer's files."""


@dataclass(frozen=True)
class _Sources:
    """The probes as the model's input."""

    texts: tuple[str, ...]
    source: str
    target: str
    tokens: list[list[str]]
    ids: list[tuple[int, ...]]


def self_test(subject: Subject, progress: Progress) -> SelfTest:
    """Run all checks. Raises SelfTestFailed at the first one that does not hold."""
    sources, tokens = check_tokens(subject)
    file = ModelFile(subject.folder / "model.bin")
    layers = check_layers(subject, file, sources, progress)
    whole, probes = check_whole(subject, file, sources)
    return SelfTest((tokens, layers, whole), probes)


def check_tokens(subject: Subject) -> tuple[_Sources, Check]:
    """Ids by the library, by the written vocabulary and by plain JSON are the same."""
    tokenizer = Tokenizer.from_folder(subject.folder)
    written = json.loads((subject.folder / "shared_vocabulary.json").read_bytes())
    expected, special = subject.vocabulary, subject.facts.special
    if len(written) != subject.checkpoint.rows:
        raise SelfTestFailed(f"The vocabulary has {len(written)} names for {subject.checkpoint.rows} rows.")
    looked_at = {special.bos, special.pad, special.eos, special.unk, special.decoder_start}
    looked_at.update(expected.id(code) for code in subject.facts.languages.all)
    looked_at.update(np.linspace(0, expected.size - 1, min(_PIECES, expected.size)).astype(int).tolist())
    for number in sorted(looked_at):
        token = expected.tokens[number]
        _same(f"token {number}", written[number], token)
        if not token.startswith("<hole"):
            _same(f"token {number} of the tokenizer", tokenizer.tokens([number])[0], token)
            _same(f"id of {token!r}", tokenizer.ids([token])[0], number)
    if tokenizer.language_codes != subject.facts.languages.all:
        raise SelfTestFailed("The tokenizer's language codes are not those of tokenizer.json.")
    source, target = probe_pair(subject.facts)
    encoded = tokenizer.encode(PROBE_TEXTS, source)
    ids = [tuple(expected.id(token) for token in tokens) for tokens in encoded]
    for tokens in encoded:
        _check_order(tokens, source, tokenizer.order, subject)
    detail = (
        f"{len(looked_at)} ids, {len(subject.facts.languages.all)} language codes, order {tokenizer.order}"
    )
    return _Sources(PROBE_TEXTS, source, target, encoded, ids), Check("token-ids", detail)


def probe_pair(facts: SpecialFacts) -> tuple[str, str]:
    """The model's own pair; for a model of many languages English to Spanish or whatever comes nearest."""
    languages = facts.languages
    if languages.source is not None and languages.target is not None:
        return languages.source, languages.target
    source = "eng_Latn" if "eng_Latn" in languages.all else languages.all[0]
    others = [code for code in languages.all if code != source] or [source]
    return source, "spa_Latn" if "spa_Latn" in others else others[0]


def check_layers(subject: Subject, file: ModelFile, sources: _Sources, progress: Progress) -> Check:
    """Each layer alone, in float32, equals the forward pass on the rounded originals."""
    network, plan = subject.checkpoint.network, PLANS[subject.quantization]
    reference = CheckpointParameters(subject.checkpoint, plan)
    special = subject.facts.special
    forced = _forced_targets(subject, sources)
    sentences = [Sentence(s, (special.decoder_start, *t)) for s, t in zip(sources.ids, forced, strict=True)]
    vocabulary = SliceVocabulary.around(sentences, special, subject.checkpoint.rows)
    local = [vocabulary.local(sentence) for sentence in sentences]

    def difference(depth: Depth) -> float:
        seen = _forced_logits(open_slice(file, depth, vocabulary), vocabulary, local)
        wanted = forward(reference, depth, local, vocabulary.rows).logits
        return max(_largest(a - b) for a, b in zip(seen, wanted, strict=True))

    worst = 0.0
    count = max(network.encoder_layers, network.decoder_layers)
    depths = [Depth((i % network.encoder_layers,), (i % network.decoder_layers,)) for i in range(count)]
    total = sum(slice_bytes(file, depth) for depth in depths)
    with progress.step("self-test layers", total) as step:
        for depth, found in zip(depths, map(difference, depths), strict=True):
            worst = max(worst, found)
            if not found <= LOGIT_TOLERANCE:
                raise SelfTestFailed(
                    f"Layer {depth.encoder[0]} of the encoder and {depth.decoder[0]} of the decoder, run alone, differ"
                    f" from the checkpoint's tensors by {found:.3g} in a logit; {LOGIT_TOLERANCE} is allowed."
                )
            step.advance(slice_bytes(file, depth))
    return Check("layers", f"{count} layers alone in float32, largest difference of a logit {worst:.1e}")


def check_whole(subject: Subject, file: ModelFile, sources: _Sources) -> tuple[Check, tuple[Probe, ...]]:
    """The whole model's greedy output, against the forward pass on the originals."""
    strict = subject.quantization is Quantization.FLOAT32
    if PLANS[subject.quantization].weights in (Stored.FLOAT16, Stored.BFLOAT16):
        # No CPU computes these types: CTranslate2 would unpack the model to twice the size of its file.
        outputs = _greedy_by_numpy(subject, file, sources)
    else:
        translator = ctranslate2.Translator(str(subject.folder), device="cpu", intra_threads=_threads())
        outputs = decode_probes(translator, sources.tokens, sources.target, logits=strict)
        del translator
    probes = []
    worst = 0.0
    ids = [tuple(subject.vocabulary.id(token) for token in output.tokens) for output in outputs]
    logits = _reference_logits(subject, sources, ids)
    for number, output in enumerate(outputs):
        if strict:
            worst = max(worst, _require_equal_steps(output, ids[number], logits[number]))
        worst_score = _require_close(output, ids[number], logits[number])
        worst = worst if strict else max(worst, worst_score)
        score = min(round(float(output.score), 6), 0.0)
        probes.append(Probe(sources.texts[number], sources.source, sources.target, ids[number], score))
    if strict:
        detail = f"first {STEPS} tokens equal, largest difference of a logit {worst:.1e}"
    else:
        detail = f"first tokens equal, largest difference of a score {worst:.1e}"
    return Check("whole-model", detail), tuple(probes)


def _same(what: str, seen: object, expected: object) -> None:
    if seen != expected:
        raise SelfTestFailed(f"The {what} is {seen!r}, expected {expected!r} from tokenizer.json.")


def _check_order(tokens: list[str], source: str, order: TokenOrder, subject: Subject) -> None:
    end = subject.vocabulary.tokens[subject.facts.special.eos]
    first = order is TokenOrder.CODE_FIRST
    placed = tokens[0] == source and tokens[-1] == end if first else tokens[-2:] == [end, source]
    if not placed or tokens.count(source) != 1 or tokens.count(end) != 1:
        raise SelfTestFailed(
            f"A probe was tokenized as {tokens}, without {source} and {end} in their places."
        )


def _forced_targets(subject: Subject, sources: _Sources) -> list[tuple[int, ...]]:
    """Decoder input for the layers alone: the language token and a few pieces. What they are does not matter."""
    language = subject.vocabulary.id(sources.target)
    return [(language, *ids[1:STEPS]) for ids in sources.ids]


def _forced_logits(
    translator: Any, vocabulary: SliceVocabulary, sentences: Sequence[Sentence]
) -> list[Floats]:
    """CTranslate2's logits at each step of forced targets, [target length, rows]."""
    names = vocabulary.names
    results = translator.translate_batch(
        [[names[i] for i in sentence.source] for sentence in sentences],
        target_prefix=[[names[i] for i in sentence.target[1:]] for sentence in sentences],
        beam_size=1,
        max_decoding_length=max(len(sentence.target) for sentence in sentences),
        min_decoding_length=0,
        return_logits_vocab=True,
    )
    return [
        np.stack([np.array(step).reshape(-1) for step in result.logits[0]])[: len(sentence.target)]
        for result, sentence in zip(results, sentences, strict=True)
    ]


def _reference_logits(subject: Subject, sources: _Sources, outputs: list[tuple[int, ...]]) -> list[Floats]:
    """Logits of the unrounded originals along the model's own output, one pass over all weights."""
    start = subject.facts.special.decoder_start
    sentences = [Sentence(s, (start, *ids[:-1])) for s, ids in zip(sources.ids, outputs, strict=True)]
    return forward(CheckpointParameters(subject.checkpoint), _full_depth(subject), sentences).logits


def _greedy_by_numpy(subject: Subject, file: ModelFile, sources: _Sources) -> list[Decoded]:
    """Greedy output of the written file by the forward pass on its own numbers."""
    special, language = subject.facts.special, subject.vocabulary.id(sources.target)
    sentences = [Sentence(ids, (special.decoder_start, language)) for ids in sources.ids]
    parameters = FileParameters(file, subject.checkpoint.network)
    paths = greedy(parameters, _full_depth(subject), sentences, Ending(special.eos, LIMIT + 1))
    names = subject.vocabulary.for_rows(subject.checkpoint.rows)
    return [
        Decoded(tuple(names[i] for i in path.target[1:]), path.score / (len(path.target) - 1))
        for path in paths
    ]


def _require_equal_steps(output: Decoded, ids: tuple[int, ...], logits: Floats) -> float:
    """float32: the same five tokens, and each step's logits within the tolerance."""
    worst = 0.0
    for step in range(min(STEPS + 1, len(ids))):
        seen = np.array(output.logits[step]).reshape(-1)
        worst = max(worst, _largest(seen - logits[step]))
        # The first token is forced. Two logits closer than the tolerance may change places.
        if step and logits[step].max() - logits[step][ids[step]] > LOGIT_TOLERANCE:
            raise SelfTestFailed(
                f"Token {step} of a probe is {ids[step]}, the tensors give {logits[step].argmax()}."
            )
    if not worst <= LOGIT_TOLERANCE:
        raise SelfTestFailed(f"The whole model's logits differ from the checkpoint's by {worst:.3g}.")
    return worst


def _require_close(output: Decoded, ids: tuple[int, ...], logits: Floats) -> float:
    """Any type: the first token agrees and the score is near."""
    chances = log_softmax(logits)
    if len(ids) > 1:
        lost = float(chances[1].max() - chances[1][ids[1]])
        # Where the best two are nearer than quantization's own error, either is right.
        if not lost <= SCORE_TOLERANCE:
            raise SelfTestFailed(
                f"A probe begins with token {ids[1]}, the tensors give {chances[1].argmax()}."
            )
    expected = float(sum(chances[step][token] for step, token in enumerate(ids) if step) / len(ids))
    difference = abs(expected - output.score)
    if not difference <= SCORE_TOLERANCE:
        raise SelfTestFailed(
            f"A probe's score is {output.score:.3f}, the checkpoint's tensors give {expected:.3f}."
        )
    return difference


def _full_depth(subject: Subject) -> Depth:
    network = subject.checkpoint.network
    return Depth(tuple(range(network.encoder_layers)), tuple(range(network.decoder_layers)))


def _largest(difference: Floats) -> float:
    """Largest magnitude; not-a-number counts as infinite."""
    largest = float(np.abs(difference).max())
    return largest if np.isfinite(largest) else float("inf")


def _threads() -> int:
    return len(os.sched_getaffinity(0))
