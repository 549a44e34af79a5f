"""When a probe sentence counts as translated as recorded."""

import pytest

from nllb_predictor.convert.manifest import Probe
from nllb_predictor.engine import probe
from nllb_predictor.engine.probe import batches, comparable, difference
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


def probe_of(*tokens: int) -> Probe:
    return Probe("Light.", "eng_Latn", "spa_Latn", tokens, -0.30)


def test_a_probe_that_was_cut_is_cut_at_the_same_place() -> None:
    for exact in (True, False):
        assert [(batch.limit, batch.probes) for batch in batches([CUT], END, exact)] == [(4, (CUT,))]
    assert difference(CUT, CUT.tokens, -0.30, exact=True) == ""


def test_probes_share_a_batch_where_all_have_the_room_they_were_recorded_with() -> None:
    shorter = probe_of(41, 17, END)
    assert [(batch.limit, batch.probes) for batch in batches([shorter, CUT, RECORDED], END, exact=True)] == [
        (4, (shorter, CUT, RECORDED))
    ]


def test_probes_that_were_cut_at_different_places_are_translated_apart() -> None:
    longer = probe_of(41, 17, 18, 19, 20, 21)
    found = {batch.limit: batch.probes for batch in batches([longer, CUT, RECORDED], END, exact=True)}
    assert found == {4: (CUT, RECORDED), 6: (longer,)}


def test_a_probe_that_ended_may_go_on_for_longer_in_other_arithmetic() -> None:
    found = {
        probe: batch.limit for batch in batches([RECORDED, CUT], END, exact=False) for probe in batch.probes
    }
    assert found[CUT] == 4
    assert found[RECORDED] > 2 * len(RECORDED.tokens)


def test_a_manifest_without_probes_has_nothing_to_translate() -> None:
    assert batches([], END, exact=True) == []


def test_the_tolerance_is_the_published_one() -> None:
    assert pytest.approx(0.1) == probe.SCORE_TOLERANCE
