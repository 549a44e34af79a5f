"""Runs in an environment of its own: the same model behind BentoML, which batches calls of different callers by itself.

`bentoml serve batching_service:Translator` with the folder in MODEL_FOLDER. What BentoML knows of a batch is its size:
neither lengths nor languages, so a batch holds what came, in order.
"""

import os

import bentoml
import ctranslate2

WAIT_MS = 120_000
"""BentoML refuses calls that it expects to wait longer; more than 64 callers' turn takes here."""


@bentoml.service(workers=1, traffic={"timeout": 600, "concurrency": 256})
class Translator:
    """One process, one engine, batches of up to 64."""

    def __init__(self) -> None:
        cores = len(os.sched_getaffinity(0))
        self._translator = ctranslate2.Translator(os.environ["MODEL_FOLDER"], intra_threads=cores)

    @bentoml.api(batchable=True, max_batch_size=64, max_latency_ms=WAIT_MS)  # type: ignore[untyped-decorator]
    def translate(self, rows: list[list[str]]) -> list[list[str]]:
        """Each row is the target's language token and the source's pieces; pieces come back. Callers cut the text
        themselves, which costs this side nothing."""
        results = self._translator.translate_batch(
            [row[1:] for row in rows],
            target_prefix=[row[:1] for row in rows],
            beam_size=1,
            max_decoding_length=512,
            max_input_length=0,
        )
        return [list(result.hypotheses[0]) for result in results]
