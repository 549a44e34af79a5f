"""The order and the pace of training follow from the recipe."""

from dataclasses import replace
from itertools import islice

import pytest

from tinymodel.schedule import Example, batches, pace
from tinymodel.settings import Recipe

RECIPE = Recipe(batch_pieces=60, steps=1000, warmup_steps=100)
EXAMPLES = [Example([1] * (3 + n % 17), [2] * (4 + n % 13)) for n in range(90)]


def one_epoch(recipe: Recipe = RECIPE) -> list[list[Example]]:
    groups: list[list[Example]] = []
    for group in batches(EXAMPLES, recipe):
        groups.append(group)
        if sum(map(len, groups)) == len(EXAMPLES):
            return groups
    raise AssertionError("batches ended")


def test_an_epoch_holds_every_example_once() -> None:
    seen = [id(example) for group in one_epoch() for example in group]
    assert sorted(seen) == sorted(id(example) for example in EXAMPLES)


def test_no_batch_is_larger_than_allowed_padding_included() -> None:
    for group in one_epoch():
        longest = max(max(len(e.source), len(e.target)) for e in group)
        assert longest * len(group) <= RECIPE.batch_pieces


def test_the_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    first = list(islice(batches(EXAMPLES, RECIPE), 50))
    assert list(islice(batches(EXAMPLES, RECIPE), 50)) == first
    assert list(islice(batches(EXAMPLES, replace(RECIPE, seed=21)), 50)) != first


def test_the_second_epoch_has_another_order() -> None:
    first = one_epoch()
    both = list(islice(batches(EXAMPLES, RECIPE), 2 * len(first)))
    assert both[len(first) :] != first


@pytest.mark.parametrize(
    ("step", "share"), [(0, 0.01), (49, 0.5), (99, 1.0), (100, 1.0), (550, 0.5), (999, 0.02)]
)
def test_the_pace_warms_up_and_then_falls_in_a_line(step: int, share: float) -> None:
    assert pace(step, RECIPE) == pytest.approx(share)
