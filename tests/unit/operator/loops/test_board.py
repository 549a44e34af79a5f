"""What all engines do right now: turns by priority, and what a source's engines take together."""

from engine_operator.domain.capacity import Taken
from engine_operator.domain.observed import Phase
from engine_operator.domain.room import Standing
from engine_operator.loops.board import Board
from engine_operator.loops.inbox import EngineKey, SourceKey

A, B, C = (EngineKey("ns", name) for name in "abc")
RUTH, PAUL = SourceKey("ns", "ruth"), SourceKey("ns", "paul")


def test_what_is_taken_is_counted_by_source_and_without_the_one_that_asks() -> None:
    board = Board()
    board.stands(A, RUTH, Standing(taken=Taken(1, 2, 2)))
    board.stands(B, RUTH, Standing(taken=Taken(1, 1, 1)))
    board.stands(C, PAUL, Standing(taken=Taken(1, 5, 5)))
    assert board.taken(RUTH, but=A, priority=0) == Taken(1, 1, 1)
    assert board.taken(RUTH, but=C, priority=0) == Taken(2, 3, 3)
    assert board.taken(None, but=A, priority=0) == Taken(), "a person's model counts in nobody's quota"
    board.leaves(B)
    assert board.taken(RUTH, but=A, priority=0) == Taken()


def test_only_those_of_a_higher_priority_that_wait_for_the_same_are_ahead() -> None:
    board = Board()
    board.stands(A, RUTH, Standing(5, waits=Phase.ROLLING_OUT))
    board.stands(B, RUTH, Standing(0, waits=Phase.ROLLING_OUT))
    board.stands(C, PAUL, Standing(9, waits=Phase.CONVERTING))
    assert board.ahead(Phase.ROLLING_OUT, 0) == 1
    assert board.ahead(Phase.ROLLING_OUT, 5) == 0
    assert board.ahead(Phase.CONVERTING, 5) == 1


def test_room_that_becomes_free_is_told_once() -> None:
    board = Board()
    board.stands(A, RUTH, Standing(taken=Taken(1, 1, 0)))
    assert not board.take_freed()
    board.stands(A, RUTH, Standing(taken=Taken(1, 2, 0)))
    assert not board.take_freed()
    board.stands(A, RUTH, Standing())
    assert board.take_freed()
    assert not board.take_freed()
    board.stands(B, RUTH, Standing(9, waits=Phase.CONVERTING))
    board.stands(B, RUTH, Standing(9))
    assert board.take_freed(), "a turn that nobody takes is the next one's"


def test_what_an_engine_of_a_higher_priority_waits_for_is_as_good_as_taken() -> None:
    board = Board()
    board.stands(A, RUTH, Standing(5, Taken(1, 1, 1), wants=Taken(1, 2, 2)))
    assert board.taken(RUTH, but=B, priority=0) == Taken(1, 2, 2)
    assert board.taken(RUTH, but=B, priority=5) == Taken(1, 1, 1)


def test_those_who_wait_stand_in_a_queue_for_each_kind_of_place_by_priority_and_age() -> None:
    board, d = Board(), EngineKey("ns", "d")
    for key, phase in ((A, Phase.PENDING), (B, Phase.CONVERTED), (C, Phase.PENDING), (d, Phase.PENDING)):
        board.enters(key, phase)
    board.stands(C, RUTH, Standing(5))
    assert board.waiting() == [[C, A, d], [B]]
    board.enters(C, Phase.CONVERTING)
    assert board.waiting() == [[A, d], [B]]
