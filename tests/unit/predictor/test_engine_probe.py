"""When a probe sentence counts as translated as recorded."""

import pytest

from nllb_predictor.convert.manifest import Probe
from nllb_predictor.engine import probe
from nllb_predictor.engine.probe import comparable, difference, limit
from tests.support.cases import case

END = 2
RECORDED = Probe("Light.", "eng_Latn", "spa_Latn", (41, 17, 18, END), -0.30)
CUT = Probe("Light.", "eng_Latn", "spa_Latn", (41, 17, 18, 19), -0.30)


@pytest.mark.parametrize(
    ("effective", "quantization", "same"),
    [
        ("int8_float32", "int8", True),
        ("float32", "float32", True),
        ("float32", "int8", False),
        ("int8_float16", "int8", False),
    ],
)
def test_only_equal_arithmetic_promises_equal_tokens(effective: str, quantization: str, same: bool) -> None:
    assert comparable(effective, quantization) is same


@case("p53", breaks="nllb_predictor.engine.probe:difference", naive=lambda recorded, found, score, exact: "")
@pytest.mark.parametrize("found", [(41, 17, 99, END), (41, 17, END), (41, 17, 18, 18, END), (41,), ()])
def test_p53_another_translation_by_the_same_arithmetic_is_a_mismatch(found: tuple[int, ...]) -> None:
    assert difference(RECORDED, found, -0.30, exact=True)


def test_the_recorded_translation_passes() -> None:
    assert difference(RECORDED, RECORDED.tokens, -0.31, exact=True) == ""
    assert difference(RECORDED, RECORDED.tokens, -0.31, exact=False) == ""


def test_other_arithmetic_may_take_another_path_after_the_first_token() -> None:
    assert difference(RECORDED, (41, 17, 99, 98, END), -0.35, exact=False) == ""
    assert "begins" in difference(RECORDED, (41, 99, 18, END), -0.30, exact=False)
    assert "begins" in difference(RECORDED, (42, 17, 18, END), -0.30, exact=False)


def test_a_score_far_from_the_recorded_one_is_a_mismatch() -> None:
    assert "score" in difference(RECORDED, RECORDED.tokens, -0.41, exact=False)
    assert "score" in difference(RECORDED, RECORDED.tokens, -0.41, exact=True)


def test_a_probe_that_was_cut_is_cut_at_the_same_place() -> None:
    assert limit(CUT, END, exact=True) == limit(CUT, END, exact=False) == 4
    assert limit(RECORDED, END, exact=True) > 4
    assert limit(RECORDED, END, exact=False) > limit(RECORDED, END, exact=True)
    assert difference(CUT, CUT.tokens, -0.30, exact=True) == ""


def test_the_tolerance_is_the_published_one() -> None:
    assert pytest.approx(0.1) == probe.SCORE_TOLERANCE
