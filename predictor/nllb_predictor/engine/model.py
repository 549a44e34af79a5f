"""The CTranslate2 model: opened once, asked for batches from worker threads.

It refuses to hide what the library does quietly. Input is never cut by the library (its own limit is switched off;
callers check lengths first), an output that met the limit says so, and scores have one meaning for greedy and beam
search: the mean log-probability over pieces, language token and end mark.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nllb_predictor.engine import hardware
from nllb_predictor.engine.domain import EngineInfo, Hypothesis, Search, Segment
from nllb_predictor.errors import ModelUnloadable, OutOfMemory
from nllb_predictor.settings import ServeSettings

log = logging.getLogger(__name__)

END = "</s>"

MAX_POSITIONS = 1024
"""Positions of every NLLB checkpoint; CTranslate2 computes them anew, so the model file does not tell."""

MEMORY_WORDS = ("out of memory", "bad_alloc", "failed to allocate", "cannot allocate")
"""How CTranslate2 and CUDA word it; they have no error class for it."""


class TranslationEngine:
    """One model on one device. `translate` may be called from several threads at once."""

    def __init__(self, translator: Any, info: EngineInfo) -> None:
        self._translator = translator
        self.info = info

    @classmethod
    def load(cls, folder: Path, settings: ServeSettings) -> "TranslationEngine":
        """Open the model in `folder`. Raises ModelUnloadable, DeviceMissing."""
        import ctranslate2

        device = hardware.choose_device(settings.device, ctranslate2.get_cuda_device_count())
        threads = hardware.threads(settings.inter_threads, settings.intra_threads, device, hardware.cores())
        compute_type = hardware.choose_compute_type(
            settings.compute_type, lambda: set(ctranslate2.get_supported_compute_types(device))
        )
        try:
            translator = ctranslate2.Translator(
                str(folder),
                device=device,
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
            inter_threads=threads.inter,
            intra_threads=threads.intra,
            max_positions=MAX_POSITIONS,
        )
        return cls(translator, info)

    def translate(self, segments: Sequence[Segment], search: Search) -> list[Hypothesis]:
        """The best hypothesis of each segment, in order. Runs as one batch and blocks without holding the GIL.

        Raises OutOfMemory where the device has no room for it.
        """
        try:
            results = self._translator.translate_batch(
                [list(segment.tokens) for segment in segments],
                target_prefix=[[segment.target] for segment in segments],
                beam_size=search.beams,
                patience=search.patience,
                max_decoding_length=search.max_tokens,
                max_input_length=0,
                length_penalty=1.0,
                return_scores=True,
                return_end_token=True,
            )
        except (RuntimeError, MemoryError) as error:
            if isinstance(error, MemoryError) or any(word in str(error).lower() for word in MEMORY_WORDS):
                raise OutOfMemory(
                    f"The device has no memory for a batch of {len(segments)} segments."
                ) from error
            raise
        return [_hypothesis(result.hypotheses[0], result.scores[0]) for result in results]

    def score(self, segments: Sequence[Segment], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """Log-probability of every token of given translations (pieces, then the end mark) by teacher forcing."""
        results = self._translator.score_batch(
            [list(segment.tokens) for segment in segments],
            [[segment.target, *target] for segment, target in zip(segments, targets, strict=True)],
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def close(self) -> None:
        """Free the model's memory; no translation may be running."""
        self._translator.unload_model()


def _hypothesis(tokens: list[str], score: float) -> Hypothesis:
    complete = bool(tokens) and tokens[-1] == END
    return Hypothesis(tuple(tokens[:-1] if complete else tokens), float(score), complete)
