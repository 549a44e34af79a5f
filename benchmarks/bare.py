"""`python -m benchmarks.bare FOLDER INTER INTRA COUNT`: CTranslate2 by itself, one sentence at a time on demand.

Reads the number of a held-out verse per line, translates it greedily by `translate_batch`, and prints the seconds that
the call took. The tokens are made beforehand.
"""

import sys
import time
from pathlib import Path

from benchmarks.serving import sentences
from nllb_predictor.engine import hardware
from nllb_predictor.text.tokenise import Tokenizer


def main(arguments: list[str]) -> None:
    import ctranslate2

    folder, count = Path(arguments[0]), int(arguments[3])
    chosen = sentences(count)
    tokenizer = Tokenizer.from_folder(folder)
    sources = [tokenizer.encode([each.text], each.source)[0] for each in chosen]
    translator = ctranslate2.Translator(
        str(folder), inter_threads=int(arguments[1]), intra_threads=int(arguments[2])
    )
    print("ready", flush=True)
    for line in sys.stdin:
        number = int(line)
        started = time.monotonic()
        translator.translate_batch(
            [sources[number]],
            target_prefix=[[chosen[number].target]],
            beam_size=1,
            max_decoding_length=512,
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )
        print(time.monotonic() - started, flush=True)


if __name__ == "__main__":
    hardware.prepare_isa("auto")
    main(sys.argv[1:])
