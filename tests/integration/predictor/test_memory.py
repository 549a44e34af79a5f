"""p45 on the real engine: a process that may have little more memory gets a batch that needs much more."""

import re
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nllb_predictor.convert.run import Converted
from tests.integration.predictor.calls import TEXTS, body, columns
from tests.support.predictor import Predictor, start_predictor

SHORT, OTHER = TEXTS[0], TEXTS[2]
LONG = " ".join(["the word of the LORD came to him"] * 82)
"""About 900 tokens: beside it 31 short ones need 400 MB, since a batch is as wide as its longest."""
SPARE = 100 << 20
AS_ONE = {"beam_size": 1, "split_sentences": False, "timeout_ms": 60_000}


@pytest.fixture
def predictor(tmp_path: Path, float32_model: Converted) -> Iterator[Predictor]:
    """With a budget of tokens that lets such a batch be made at all."""
    flags = ("--inter-threads", "1", "--max-batch-tokens", "200000", "--max-batch-segments", "64")
    found = start_predictor(tmp_path, float32_model.uri, flags)
    try:
        yield found.wait_ready()
    finally:
        found.stop()


def _address_space(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"^VmSize:\s+(\d+)", status, re.MULTILINE)[0]) * 1024


def test_a_batch_that_needs_too_much_memory_is_halved_and_every_segment_answered(
    predictor: Predictor,
) -> None:
    texts = [LONG, *[SHORT, OTHER] * 15, SHORT]
    with ThreadPoolExecutor(8) as callers:  # All threads that the server ever starts are there.
        list(callers.map(lambda _: predictor.infer(body([SHORT] * 65, parameters=AS_ONE)), range(16)))
    alone = [columns(predictor.infer(body([text], parameters=AS_ONE)))[0][0] for text in (SHORT, OTHER)]
    unlimited = resource.prlimit(predictor.process.pid, resource.RLIMIT_AS)
    limit = _address_space(predictor.process.pid) + SPARE
    resource.prlimit(predictor.process.pid, resource.RLIMIT_AS, (limit, unlimited[1]))

    translations, _ = columns(predictor.infer(body(texts, parameters=AS_ONE)))

    assert "no memory for a batch, halving it: segments=32" in predictor.log
    assert translations[1:3] == alone
    assert all(translations)
    assert columns(predictor.infer(body([SHORT], parameters=AS_ONE)))[0] == alone[:1]
    assert predictor.process.poll() is None
