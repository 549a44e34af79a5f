"""Runs in the environment that has torch: `python one_at_a_time.py FOLDER SENTENCES.json`, transformers by itself.

Translates greedily, one sentence after the other, and prints sentences per second as JSON. Any number of clients of a
server that does this gets so much.
"""

import json
import sys
import time
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

folder, file = sys.argv[1:3]
with open(file, encoding="utf-8") as opened:  # noqa: PTH123
    rows = json.load(opened)
model = AutoModelForSeq2SeqLM.from_pretrained(folder, torch_dtype=torch.float32).eval()
tokenizers: dict[str, Any] = {}
times = []
with torch.inference_mode():
    for text, source, target in rows:
        tokenizer = tokenizers.get(source) or AutoTokenizer.from_pretrained(folder, src_lang=source)
        tokenizers[source] = tokenizer
        started = time.monotonic()
        ids = model.generate(
            **tokenizer(text, return_tensors="pt"),
            forced_bos_token_id=tokenizer.convert_tokens_to_ids(target),
            num_beams=1,
            max_length=512,
        )
        tokenizer.batch_decode(ids, skip_special_tokens=True)
        times.append(time.monotonic() - started)
print(json.dumps(len(times) / sum(times)))
