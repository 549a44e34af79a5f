"""The CTranslate2 model: opened once, asked for batches from worker threads.

It refuses to hide what the library does quietly. Input is never cut by the library (its own limit is switched off;
callers check lengths first), an output that met the limit says so, and scores have one meaning for greedy and beam
search: the mean log-probability over pieces, language token and end mark.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nllb_predictor.engine import hardware
from nllb_predictor.engine.domain import (
    EngineInfo,
    How,
    Hypothesis,
    NextTokens,
    Scoring,
    Search,
    Segment,
)
from nllb_predictor.engine.vocabulary import Vocabulary
from nllb_predictor.errors import ModelUnloadable, OutOfMemory
from nllb_predictor.settings import ServeSettings

log = logging.getLogger(__name__)

END = "</s>"

MAX_POSITIONS = 1024
"""Positions of every NLLB checkpoint; CTranslate2 computes them anew, so the model file does not tell."""

MEMORY_WORDS = ("out of memory", "bad_alloc", "failed to allocate", "cannot allocate")
"""How CTranslate2 and CUDA word it; they have no error class for it."""


class TranslationEngine:
    """One model on one device. `run` may be called from several threads at once."""

    def __init__(self, translator: Any, info: EngineInfo, vocabulary: Vocabulary) -> None:
        self._translator = translator
        self._vocabulary = vocabulary
        self.info = info

    @classmethod
    def load(cls, folder: Path, settings: ServeSettings) -> "TranslationEngine":
        """Open the model in `folder`. Raises ModelUnloadable, DeviceMissing."""
        hardware.prepare_isa(settings.cpu_isa)
        import ctranslate2

        gpus = ctranslate2.get_cuda_device_count()
        device = hardware.choose_device(settings.device, gpus)
        chosen = hardware.choose_gpus(settings.gpus, gpus) if device == "cuda" else [0]
        threads = hardware.threads(settings.inter_threads, settings.intra_threads, device, hardware.cores())
        compute_type = hardware.choose_compute_type(
            settings.compute_type, lambda: set(ctranslate2.get_supported_compute_types(device))
        )
        try:
            translator = ctranslate2.Translator(
                str(folder),
                device=device,
                device_index=chosen,
                compute_type=compute_type,
                inter_threads=threads.inter,
                intra_threads=threads.intra,
            )
        except (RuntimeError, ValueError) as error:
            raise ModelUnloadable(f"CTranslate2 cannot open the model in {folder}: {error}") from error
        info = EngineInfo(
            device=device,
            compute_type=translator.compute_type,
            requested_compute_type=settings.compute_type,
            isa=hardware.instruction_set(device),
            inter_threads=threads.inter * len(chosen),
            intra_threads=threads.intra,
            max_positions=MAX_POSITIONS,
            gpus=tuple(chosen) if device == "cuda" else (),
        )
        return cls(translator, info, Vocabulary(folder))

    def run(self, segments: Sequence[Segment], how: How) -> list[tuple[Hypothesis, ...]]:
        """What `how` asks, for each segment in order; hypotheses best first. Runs as one batch and blocks without
        holding the GIL.

        Raises OutOfMemory where the device has no room for it.
        """
        try:
            if isinstance(how, Search):
                return self._search(segments, how)
            if isinstance(how, Scoring):
                return self._score(segments)
            return self._next_tokens(segments, how)
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, MemoryError) or any(word in str(error).lower() for word in MEMORY_WORDS):
                raise OutOfMemory(
                    f"The device has no memory for a batch of {len(segments)} segments."
                ) from error
            raise

    def translate(self, segments: Sequence[Segment], search: Search) -> list[Hypothesis]:
        """The best hypothesis of each segment."""
        return [hypotheses[0] for hypotheses in self.run(segments, search)]

    def _search(self, segments: Sequence[Segment], search: Search) -> list[tuple[Hypothesis, ...]]:
        prefixes = [[segment.target, *segment.prefix] for segment in segments]
        steps = _Steps()
        results = self._translator.translate_batch(
            [list(segment.tokens) for segment in segments],
            target_prefix=prefixes,
            beam_size=search.beams,
            num_hypotheses=search.hypotheses,
            patience=search.patience,
            # The library's limit counts the prefix and would cut it.
            max_decoding_length=search.max_tokens + max(len(prefix) for prefix in prefixes) - 1,
            max_input_length=0,
            length_penalty=1.0,
            no_repeat_ngram_size=search.no_repeat_ngram,
            repetition_penalty=search.repetition_penalty,
            return_scores=True,
            return_attention=search.attention,
            return_end_token=True,
            # The library calls nobody in a beam search.
            callback=steps.saw if search.log_probs and search.beams == 1 else None,
        )
        found = [
            tuple(
                _hypothesis(tokens, score, rows, search.max_tokens + len(segment.prefix))
                for tokens, score, rows in zip(
                    result.hypotheses,
                    result.scores,
                    result.attention or [()] * len(result.hypotheses),
                    strict=True,
                )
            )
            for segment, result in zip(segments, results, strict=True)
        ]
        return [(steps.known(place, row[0]), *row[1:]) for place, row in enumerate(found)]

    def _score(self, segments: Sequence[Segment]) -> list[tuple[Hypothesis, ...]]:
        targets = [(segment.target, *segment.prefix) for segment in segments]
        results = self._translator.score_batch(
            [list(segment.tokens) for segment in segments],
            [list(target) for target in targets],
            max_input_length=0,
        )
        return [(_scored(target, result.log_probs),) for target, result in zip(targets, results, strict=True)]

    def _next_tokens(self, segments: Sequence[Segment], how: NextTokens) -> list[tuple[Hypothesis, ...]]:
        prefixes = [[segment.target, *segment.prefix] for segment in segments]
        results = self._translator.translate_batch(
            [list(segment.tokens) for segment in segments],
            target_prefix=prefixes,
            beam_size=1,
            # One step more than the longest prefix; what shorter ones go on with is not looked at.
            max_decoding_length=max(len(prefix) for prefix in prefixes) + 1,
            max_input_length=0,
            return_logits_vocab=True,
            return_scores=True,
            return_end_token=True,
        )
        choice = self._vocabulary.choice(how.allowed)
        found: list[tuple[Hypothesis, ...]] = []
        for prefix, result in zip(prefixes, results, strict=True):
            # Row p tells what follows p tokens; row 0 would be the language token.
            places = range(len(prefix) if how.last_only else 1, len(prefix) + 1)
            rows = tuple(self._vocabulary.likeliest(result.logits[0][p], how.top, choice) for p in places)
            found.append((Hypothesis(tuple(prefix), 0.0, False, next_tokens=rows),))
        return found

    def close(self) -> None:
        """Free the model's memory; no translation may be running."""
        self._translator.unload_model()


class _Steps:
    """What a greedy search tells of each step. The library calls with a row's place in the batch, and from one thread
    at a time."""

    def __init__(self) -> None:
        self._rows: dict[int, list[tuple[str, float]]] = {}

    def saw(self, step: Any) -> bool:
        """Keep the step's token and log-probability; never ends the search."""
        self._rows.setdefault(step.batch_id, []).append((step.token, float(step.log_prob)))
        return False

    def known(self, place: int, hypothesis: Hypothesis) -> Hypothesis:
        """With the log-probabilities of its tokens, where the steps wrote just these."""
        expected = (*hypothesis.tokens, *([END] if hypothesis.complete else []))
        row = self._rows.get(place, [])[: len(expected)]
        if tuple(token for token, _ in row) != expected:
            return hypothesis
        return replace(hypothesis, log_probs=tuple(value for _, value in row))


def _hypothesis(tokens: list[str], score: float, rows: Any, limit: int) -> Hypothesis:
    """A hypothesis of the library's. A batch has one limit; what a segment with a shorter prefix has beyond its own
    is cut here."""
    complete = bool(tokens) and tokens[-1] == END and len(tokens) - 1 <= limit
    kept = tokens[:-1] if complete else tokens[:limit]
    attention = tuple(tuple(row) for row in rows[: len(kept) + complete])
    return Hypothesis(tuple(kept), float(score), complete, attention=attention)


def _scored(target: tuple[str, ...], log_probs: Sequence[float]) -> Hypothesis:
    """The language token is forced, so it counts as certain."""
    each = (0.0, *(float(value) for value in log_probs[1:]))
    return Hypothesis(target, sum(each) / len(each), True, log_probs=each)
