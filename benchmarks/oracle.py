"""`python -m benchmarks.oracle FOLDER INTER INTRA BATCHES COUNT`: CTranslate2 itself, without a server, and how quick.

Prints one JSON object: for each batch size sentences per second, all sentences sorted by length (0 is one batch of
all); with `groups`, groups of 64 in order of arrival instead.
"""

import json
import sys
import time
from pathlib import Path

from benchmarks.serving import sentences
from nllb_predictor.engine import hardware
from nllb_predictor.text.tokenise import Tokenizer

GROUP = 64


def main(arguments: list[str]) -> None:
    import ctranslate2

    folder, inter, intra = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    chosen = sentences(int(arguments[4]))
    tokenizer = Tokenizer.from_folder(folder)
    sources = [tokenizer.encode([each.text], each.source)[0] for each in chosen]
    targets = [[each.target] for each in chosen]
    translator = ctranslate2.Translator(str(folder), inter_threads=inter, intra_threads=intra)
    options = {"beam_size": 1, "max_decoding_length": 512, "max_input_length": 0}
    translator.translate_batch(sources[:8], target_prefix=targets[:8], **options)
    if arguments[3] == "groups":
        started = time.monotonic()
        for start in range(0, len(sources), GROUP):
            part = slice(start, start + GROUP)
            translator.translate_batch(sources[part], target_prefix=targets[part], **options)
        print(json.dumps({"groups": len(sources) / (time.monotonic() - started)}))
        return
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    texts, prefixes = [sources[index] for index in order], [targets[index] for index in order]
    rates = {}
    for batch in (int(each) for each in arguments[3].split(",")):
        started = time.monotonic()
        translator.translate_batch(texts, target_prefix=prefixes, max_batch_size=batch, **options)
        rates[str(batch)] = len(texts) / (time.monotonic() - started)
    print(json.dumps(rates))


if __name__ == "__main__":
    hardware.prepare_isa("auto")
    main(sys.argv[1:])
