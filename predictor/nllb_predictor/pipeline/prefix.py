"""A translation that begins with the caller's characters, wherever those end: in a word, or in a piece of one.

A model that is made to write `▁princ` cannot go on to `▁princip io`, the pieces that it would have chosen. So only
the words before the last are certain, and the last one is begun anew: for every place in it where a piece could end,
the model says which pieces of its vocabulary that go on with the caller's characters are likeliest there. The likeliest
beginnings of all are searched from, in one batch, and whole translations are compared by one score, that of every
other translation: the mean log-probability of all of its tokens, the caller's among them.

Nothing here cuts a prefix. One that leaves the model no position to write at is refused with the numbers.
"""

from asyncio import gather
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from nllb_predictor.engine.domain import Hypothesis, NextTokens, Scoring, Search, Segment
from nllb_predictor.engine.model import END
from nllb_predictor.engine.scheduler import Ticket
from nllb_predictor.errors import TextTooLong
from nllb_predictor.text.lexicon import Lexicon
from nllb_predictor.text.normalise import normalise_punctuation
from nllb_predictor.text.tokenise import WORD_START

LONGEST_PIECE = 24
"""Characters. A piece of an NLLB vocabulary has at most about 16; what is further back than this is certain."""

ASKED = 256
"""How many pieces are asked for at each place. The places share one list of what may stand there, so that they can
share a batch."""

MANY = 8192
"""More allowed pieces than this are not listed: the likeliest of the whole vocabulary are looked through instead."""

SEARCHED = 6
"""From how many beginnings a search starts, at most."""

UNLIKELY = 9.0
"""Nats: a beginning that is e^9 times less likely than the likeliest one is not searched from."""


class PrefixTokenizer(Protocol):
    """What is needed of a tokenizer; see `text.tokenise`."""

    @property
    def lexicon(self) -> Lexicon:
        """Every piece."""

    def pieces(self, normalised: Sequence[str]) -> list[list[str]]:
        """Pieces of each text."""

    def shown(self, tokens: Sequence[str]) -> list[str]:
        """What each token shows of a text that begins with them."""


@dataclass(frozen=True)
class Base:
    """A way to begin: pieces that the translation begins with for certain, and the characters, as pieces spell them,
    that the next piece must begin with. With none of those anything may follow, and the end too."""

    tokens: tuple[str, ...]
    rest: str


@dataclass(frozen=True)
class Beginning:
    """The caller's characters, and every way to begin with them. All bases share their first `certain` tokens."""

    text: str
    bases: tuple[Base, ...]
    certain: int

    @property
    def longest(self) -> int:
        return max(len(base.tokens) for base in self.bases) + 1


@dataclass(frozen=True)
class Start:
    """Tokens to search from, behind the language token. `covered` is how many characters of the text that begins with
    them stand for the caller's; `ended` says that the translation ends with them."""

    tokens: tuple[str, ...]
    log_prob: float
    covered: int
    ended: bool = False


@dataclass(frozen=True)
class Continued:
    """A translation that goes on from the caller's beginning."""

    hypothesis: Hypothesis
    """Scored, with a log-probability for each token."""
    covered: int
    """How many characters of its text stand for the caller's."""


def beginning(tokenizer: PrefixTokenizer, prefix: str) -> Beginning:
    """Every way to begin with these characters."""
    normalised = normalise_punctuation(prefix)
    tokens = tuple(tokenizer.pieces([normalised])[0])
    if not tokens:
        return Beginning(prefix, (Base((), ""),), 0)
    if prefix[-1:].isspace():
        return Beginning(prefix, (Base(tokens, WORD_START),), len(tokens))
    certain = max((place for place, token in enumerate(tokens) if token.startswith(WORD_START)), default=0)
    word = "".join(tokens[certain:])
    whole = Base(tokens, "")
    if not all(token in tokenizer.lexicon for token in tokens[certain:]):
        # A character that the model does not know: what it would have made of the word cannot be told.
        return Beginning(prefix, (whole,), certain)
    bases = _bases(tokenizer, tokens[:certain], word)
    return Beginning(prefix, tuple(dict.fromkeys((whole, *bases))), certain)


def _bases(tokenizer: PrefixTokenizer, certain: tuple[str, ...], word: str) -> list[Base]:
    """One base for each place in the word at which a piece may end, as far back as a piece may reach."""
    places = [
        place
        for place in range(max(0, len(word) - LONGEST_PIECE), len(word))
        if tokenizer.lexicon.beginning_with(word[place:])
    ]
    texts = [word[:place].removeprefix(WORD_START) for place in places]
    bases = []
    for place, pieces in zip(places, tokenizer.pieces(texts), strict=True):
        begun = [WORD_START] if word[:place] == WORD_START else pieces
        if "".join(begun) == word[:place]:
            bases.append(Base((*certain, *begun), word[place:]))
    return bases


def allowed(lexicon: Lexicon, bases: Sequence[Base]) -> tuple[str, ...]:
    """What may follow any of the bases; nothing, which allows everything, where that is more than can be listed."""
    found = {piece: None for rest in {base.rest for base in bases} for piece in lexicon.beginning_with(rest)}
    return tuple(found) if len(found) <= MANY else ()


def starts(
    tokenizer: PrefixTokenizer,
    begun: Beginning,
    scored: Mapping[Base, Hypothesis],
    following: Mapping[Base, Hypothesis],
) -> list[Start]:
    """The likeliest ways to begin, best first. `scored` has the log-probabilities of each base's tokens, `following`
    what is likeliest behind those that something must follow."""
    found: dict[tuple[tuple[str, ...], bool], Start] = {}
    for base in begun.bases:
        own = sum(scored[base].log_probs[1 + begun.certain : 1 + len(base.tokens)])
        covered = _length(tokenizer, (*base.tokens, base.rest))
        for start in _from(base, own, covered, following.get(base)):
            known = found.get((start.tokens, start.ended))
            if known is None or known.covered < start.covered:
                found[start.tokens, start.ended] = start
    ranked = sorted(found.values(), key=lambda start: -start.log_prob)
    likely = [start for start in ranked if start.log_prob >= ranked[0].log_prob - UNLIKELY]
    return likely[:SEARCHED]


def _from(base: Base, own: float, covered: int, following: Hypothesis | None) -> list[Start]:
    if following is None:
        return [Start(base.tokens, own, covered)]
    options = following.next_tokens[-1]
    found = [
        Start((*base.tokens, each.token), own + each.log_prob, covered)
        for each in options
        if each.token.startswith(base.rest)
    ]
    if base.rest == WORD_START:
        # White space at the end: nothing needs to follow it.
        found += [
            Start(base.tokens, own + each.log_prob, covered, ended=True)
            for each in options
            if each.token == END
        ]
        # The vocabulary has the mark alone, so there is always a way on.
        found = found or [Start((*base.tokens, WORD_START), own, covered)]
    return found


def _length(tokenizer: PrefixTokenizer, tokens: Sequence[str]) -> int:
    return sum(len(each) for each in tokenizer.shown(tokens))


class Continuer:
    """Continues beginnings with one model."""

    def __init__(self, tokenizer: PrefixTokenizer, max_positions: int) -> None:
        self._tokenizer = tokenizer
        self._max_positions = max_positions

    def beginning(self, index: int, prefix: str) -> Beginning:
        """Every way to begin segment `index`. Raises TextTooLong."""
        begun = beginning(self._tokenizer, prefix)
        # Language token, and one position at least for what follows.
        if begun.longest + 2 > self._max_positions:
            raise TextTooLong(
                f"The prefix of segment {index} has {begun.longest - 1} tokens; "
                f"with what follows it this engine writes at most {self._max_positions}.",
                field="target_prefix",
                hint="Translate sentence by sentence.",
            )
        return begun

    async def continued(
        self, ticket: Ticket, segment: Segment, begun: Beginning, search: Search
    ) -> list[Continued]:
        """Translations that begin so, the best first; more than `search.hypotheses`, since some may read alike."""
        found = await self._starts(ticket, segment, begun)
        room = self._max_positions - 1 - max(len(start.tokens) for start in found)
        # The search does not score what it was given, so its own choice among its beams is not ours.
        limited = replace(search, max_tokens=min(search.max_tokens, room), hypotheses=search.beams)
        open_ends = [start for start in found if not start.ended]
        rows = await ticket.run([_after(segment, start.tokens) for start in open_ends], limited)
        pairs = [(start, each) for start, row in zip(open_ends, rows, strict=True) for each in row]
        pairs += [
            (start, await self._ended(ticket, segment, start, search)) for start in found if start.ended
        ]
        scores = await ticket.run([_after(segment, each.tokens[1:]) for _, each in pairs], Scoring())
        done = [
            Continued(rescored(each, score[0]), start.covered)
            for (start, each), score in zip(pairs, scores, strict=True)
        ]
        return sorted(done, key=lambda each: -each.hypothesis.score)

    async def _ended(self, ticket: Ticket, segment: Segment, start: Start, search: Search) -> Hypothesis:
        """The translation that ends with its start. Where attention is wanted, a search that has to go on by a token
        tells that of all before it."""
        rows: tuple[tuple[float, ...], ...] = ()
        if search.attention:
            one = Search(1, 1, attention=True)
            found = await ticket.run([_after(segment, start.tokens)], one)
            rows = found[0][0].attention[: 1 + len(start.tokens)]
        return Hypothesis((segment.target, *start.tokens), 0.0, True, attention=rows)

    async def _starts(self, ticket: Ticket, segment: Segment, begun: Beginning) -> list[Start]:
        unfinished = [base for base in begun.bases if base.rest]
        choice = allowed(self._tokenizer.lexicon, unfinished)
        scored, following = await gather(
            ticket.run([_after(segment, base.tokens) for base in begun.bases], Scoring()),
            ticket.run(
                [_after(segment, base.tokens) for base in unfinished],
                NextTokens(ASKED, choice, last_only=True),
            ),
        )
        return starts(
            self._tokenizer,
            begun,
            {base: row[0] for base, row in zip(begun.bases, scored, strict=True)},
            {base: row[0] for base, row in zip(unfinished, following, strict=True)},
        )


def _after(segment: Segment, tokens: tuple[str, ...]) -> Segment:
    return replace(segment, prefix=tokens)


def rescored(hypothesis: Hypothesis, scoring: Hypothesis) -> Hypothesis:
    """With the log-probability of each of its tokens and the score that follows from them. A hypothesis that the limit
    cut has no end mark, so that one does not count."""
    log_probs = scoring.log_probs[: len(hypothesis.tokens) + hypothesis.complete]
    return replace(hypothesis, log_probs=log_probs, score=sum(log_probs) / len(log_probs))
