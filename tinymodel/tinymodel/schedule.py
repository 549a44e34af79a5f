"""The order and the pace of training: which examples make a batch, and how large a step is.

Why it exists: both follow from the recipe alone, so a stopped run finds its place again and a test needs no torch.
What it refuses to do: depend on time or on anything that happened in an earlier step.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tinymodel.settings import Recipe


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids of one verse in one direction: `[code] pieces </s>` on both sides."""

    source: list[int]
    target: list[int]


def batches(examples: Sequence[Example], recipe: Recipe) -> Iterator[list[Example]]:
    """Endless batches of like length, about `batch_pieces` target pieces each; the order follows from the seed."""
    epoch = 0
    while True:
        shuffle = random.Random(recipe.seed * 1000 + epoch)
        order = sorted(examples, key=lambda e: (len(e.target) + len(e.source)) / 2 + shuffle.random() * 2)
        groups: list[list[Example]] = [[]]
        longest = 0
        for example in order:
            longest = max(longest, len(example.target), len(example.source))
            if longest * (len(groups[-1]) + 1) > recipe.batch_pieces:
                groups.append([])
                longest = max(len(example.target), len(example.source))
            groups[-1].append(example)
        shuffle.shuffle(groups)
        yield from groups
        epoch += 1


def pace(step: int, recipe: Recipe) -> float:
    """Share of the peak learning rate at a step: linear warm-up, then linear decay to a fiftieth."""
    if step < recipe.warmup_steps:
        return (step + 1) / recipe.warmup_steps
    return max(0.02, (recipe.steps - step) / max(1, recipe.steps - recipe.warmup_steps))
