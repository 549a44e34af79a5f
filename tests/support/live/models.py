"""Model archives as Serval stores them, and what each must answer.

Two revisions that differ in what they say: the trained tiny model, and the same with a little noise on its weights.
The expected translations come from CTranslate2 itself on a folder converted here, so that a served answer is never
compared with another served answer.
"""

import json
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import ctranslate2
import numpy as np
import tokenizers
from sacremoses import MosesPunctNormalizer
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).resolve().parents[3]
TINY = ROOT / "tests" / "data" / "tiny-nllb"
NOISE = 0.15
"""Share of each matrix's own spread: enough that several of our sentences come out differently."""


def sentences(count: int = 16) -> list[str]:
    """English verses of books that the model never saw."""
    rows = [json.loads(line) for line in (ROOT / "tests" / "data" / "heldout.jsonl").read_text().splitlines()]
    short = [row["eng"] for row in rows if 30 <= len(row["eng"]) <= 110]
    return short[:: max(1, len(short) // count)][:count]


def archive(folder: Path, target: Path) -> Path:
    """Pack a checkpoint as machine.py does: gzip tar, files at the root."""
    with tarfile.open(target, "w:gz", compresslevel=1) as packed:
        for path in sorted(folder.iterdir()):
            packed.add(path, path.name)
    return target


def noisy_copy(target: Path, seed: int) -> Path:
    """The tiny checkpoint with seeded noise on every matrix of its decoder."""
    target.mkdir(parents=True, exist_ok=True)
    for path in TINY.iterdir():
        if path.suffix != ".safetensors":
            (target / path.name).write_bytes(path.read_bytes())
    random = np.random.default_rng(seed)
    tensors = load_file(TINY / "model.safetensors")
    for name, value in tensors.items():
        if "decoder.layers" in name and value.ndim == 2:
            noise = random.standard_normal(value.shape).astype(value.dtype)
            tensors[name] = value + noise * (NOISE * value.std())
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    return target


def references(checkpoint: Path, scratch: Path, texts: Sequence[str], beam_size: int) -> dict[str, str]:
    """What CTranslate2 says for each text, English to Spanish, in float32."""
    converted = scratch / f"{checkpoint.name}-float32"
    if not converted.exists():
        subprocess.run(
            [
                sys.executable,
                "-m",
                "nllb_predictor",
                "convert",
                str(checkpoint),
                str(converted),
                "--quantization",
                "float32",
            ],
            cwd=ROOT,
            check=True,
            capture_output=True,
        )
    tokenizer = tokenizers.Tokenizer.from_file(str(converted / "tokenizer.json"))
    translator = ctranslate2.Translator(str(converted), device="cpu", compute_type="float32")
    moses = MosesPunctNormalizer()
    encoded = tokenizer.encode_batch([moses.normalize(text) for text in texts], add_special_tokens=False)
    sources = [["eng_Latn", *item.tokens, "</s>"] for item in encoded]
    results = translator.translate_batch(
        sources, target_prefix=[["spa_Latn"]] * len(sources), beam_size=beam_size, max_decoding_length=200
    )
    vocabulary = tokenizer.get_vocab()
    ids = [[vocabulary[token] for token in result.hypotheses[0]] for result in results]
    return dict(zip(texts, tokenizer.decode_batch(ids, skip_special_tokens=True), strict=True))
