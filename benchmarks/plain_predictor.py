"""`python -m benchmarks.plain_predictor FOLDER PORT`: the KServe predictor that one writes first, to compare with.

kserve's own server and a `predict` that calls `translate_batch` for what its request holds: nothing is batched across
callers.
"""

import sys
from pathlib import Path
from typing import Any

import ctranslate2
import kserve

from benchmarks.serving import NAME
from nllb_predictor.text.tokenise import Tokenizer


class Plain(kserve.Model):  # type: ignore[misc]
    """One call, one batch."""

    def __init__(self, folder: Path) -> None:
        super().__init__(NAME)
        self._tokenizer = Tokenizer.from_folder(folder)
        self._translator = ctranslate2.Translator(str(folder), intra_threads=2)
        self.ready = True

    def predict(self, payload: Any, headers: Any = None, response_headers: Any = None) -> dict[str, Any]:
        rows = payload["instances"]
        results = self._translator.translate_batch(
            [self._tokenizer.encode([row["text"]], row["source_language"])[0] for row in rows],
            target_prefix=[[row["target_language"]] for row in rows],
            beam_size=1,
            max_decoding_length=512,
        )
        return {"predictions": self._tokenizer.decode_batch([tuple(r.hypotheses[0]) for r in results])}


if __name__ == "__main__":
    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    kserve.ModelServer(http_port=port, enable_grpc=False, workers=1).start([Plain(folder)])
