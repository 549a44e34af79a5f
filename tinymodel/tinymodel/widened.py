"""The wide model as benchmarks ask for it: made once into the cache, and checked against its parent.

Why it exists: 2.4 GB are not committed, and a benchmark on a model that lost its parent's answers would mislead.
The check uses numpy alone and the committed outputs of `transformers`, so neither our converter nor CTranslate2 takes
part in it.
"""

import hashlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tinymodel import widen as widening
from tinymodel.errors import NotPreserved
from tinymodel.forward import EOS, Model, log_softmax
from tinymodel.settings import Shape
from tinymodel.widen import NLLB_600M, Parent, widen

TOLERANCE = 1e-3


def write(small: Path, out: Path, shape: Shape = NLLB_600M) -> None:
    """Write the wide checkpoint into `out`, saying so on standard error."""
    print(
        f"widening {small} to {shape.layers}+{shape.layers} layers of width {shape.width}",
        file=sys.stderr,
        flush=True,
    )
    widen(small, out, shape)


def cached(small: Path, cache: Path, shape: Shape = NLLB_600M) -> Path:
    """The wide checkpoint's folder in the cache, named after the parent's content and this code; made if missing.

    It appears whole or not at all, whoever else makes it at the same time.
    """
    digest = hashlib.sha256(Path(widening.__file__).read_bytes() + repr(shape).encode())
    for file in sorted(small.iterdir()):
        digest.update(file.name.encode() + file.read_bytes())
    folder = cache / f"widened-{digest.hexdigest()[:12]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=cache, prefix="widening-") as scratch:
            write(small, Path(scratch) / "model", shape)
            try:
                (Path(scratch) / "model").rename(folder)
            except OSError:
                # Another process was quicker; its folder is as good.
                if not folder.exists():
                    raise
    return folder


def check(small: Path, wide: Path, references: Path, segments: int) -> None:
    """Compare the wide model with `references` (ids) and with its parent (log probabilities). Raises NotPreserved.

    `segments` verses in each direction are translated greedily; the log probabilities of all rows after every word
    may differ by 1e-3.
    """
    parent, child = Parent.read(small), Parent.read(wide)
    ids = widening.token_ids(parent, child.shape)
    models = Model(parent.tensors, parent.shape), Model(child.tensors, child.shape)
    records = [json.loads(line) for line in references.read_text(encoding="utf-8").splitlines()]
    for way in dict.fromkeys(record["source_language"] for record in records):
        some = [record for record in records if record["source_language"] == way]
        for record in sorted(some, key=lambda record: len(record["output_ids"]))[:segments]:
            _check_one(models, ids, record)
            print(f"{record['id']} from {way}: same words, same probabilities: {record['text']}", flush=True)


def _check_one(models: tuple[Model, Model], ids: Any, record: dict[str, Any]) -> None:
    small, wide = models
    source, output = record["input_ids"], record["output_ids"]
    wide_source = ids[source].tolist()
    found = wide.greedy(wide_source, int(ids[output[0]]), limit=len(output))
    if found != ids[output].tolist():
        raise NotPreserved(f"{record['id']}: other words than the parent's")
    decoder = [EOS, *output[:-1]]
    expected = log_softmax(small.logits(small.encode(source), decoder))
    actual = log_softmax(wide.logits(wide.encode(wide_source), [EOS, *ids[output[:-1]].tolist()]))
    distance = float(np.abs(actual[:, ids] - expected).max())
    if distance > TOLERANCE:
        raise NotPreserved(f"{record['id']}: log probabilities differ by {distance:.2g}")
