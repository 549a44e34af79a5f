"""Which ways are begun that leave a hypothesis."""

from nllb_predictor.engine.domain import Hypothesis, NextToken
from nllb_predictor.pipeline.graph.explore import UNLIKELY, Way, ways

BEST = Hypothesis(("spa_Latn", "▁el", "▁cami", "no"), 0.0, True)


def following(*places: dict[str, float]) -> Hypothesis:
    rows = tuple(tuple(NextToken(token, value) for token, value in place.items()) for place in places)
    return Hypothesis(BEST.tokens, 0.0, False, next_tokens=rows)


def test_ways_begin_like_the_best_and_the_likeliest_comes_first() -> None:
    found = ways(
        BEST,
        following({"▁el": -0.1, "▁un": -3.0}, {"▁cami": -0.2, "▁mar": -1.0}, {"no": -0.1}, {"</s>": -0.1}),
    )
    assert found == [Way(("▁el", "▁mar"), -1.0), Way(("▁un",), -3.0)]


def test_what_is_unlikely_and_an_early_end_are_not_begun() -> None:
    found = ways(BEST, following({"▁a": -UNLIKELY - 0.1, "</s>": -0.5}, {"</s>": -1.0}, {"</s>": -1.0}, {}))
    assert found == []


def test_the_same_letters_cut_differently_are_no_other_way() -> None:
    found = ways(BEST, following({}, {"▁camino": -1.0, "▁ca": -1.5, "▁casa": -2.0}, {"n": -1.0}, {}))
    assert found == [Way(("▁el", "▁casa"), -2.0)]
