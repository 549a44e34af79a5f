"""Inflating ahead gives what gzip gives, fails as gzip fails, and leaves no thread behind."""

import contextlib
import gzip
import io
import threading
import zlib
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nllb_predictor.convert.inflate import BLOCK, Blocks, ahead, inflated


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "inflate"]


@given(
    parts=st.lists(st.binary(max_size=500), min_size=1, max_size=4),
    repeat=st.sampled_from([1, 1000]),
    padding=st.integers(0, 40),
    level=st.integers(0, 9),
)
@settings(deadline=None)
def test_all_members_are_inflated_as_gzip_itself_does(
    parts: list[bytes], repeat: int, padding: int, level: int
) -> None:
    packed = b"".join(gzip.compress(part * repeat, level) + bytes(padding) for part in parts)
    blocks = list(inflated(io.BytesIO(packed)))
    assert b"".join(blocks) == gzip.decompress(packed) == b"".join(part * repeat for part in parts)
    assert all(0 < len(block) <= BLOCK for block in blocks)


def test_output_that_zlib_still_holds_when_the_input_is_used_up_is_not_lost() -> None:
    content = bytes(64 * BLOCK)
    packed = gzip.compress(content)
    assert len(packed) < BLOCK
    assert b"".join(inflated(io.BytesIO(packed))) == content


@pytest.mark.parametrize("lost", [1, 4, 8, 9, 50])
def test_a_member_without_its_end_is_cut_off(lost: int) -> None:
    packed = gzip.compress(bytes(range(256)) * 100)
    with pytest.raises(EOFError):
        list(inflated(io.BytesIO(packed[:-lost])))


@pytest.mark.parametrize("place", [-1, -5])
def test_a_wrong_length_or_checksum_is_damage(place: int) -> None:
    packed = bytearray(gzip.compress(b"content" * 50))
    packed[place] ^= 1
    with pytest.raises(zlib.error):
        list(inflated(io.BytesIO(bytes(packed))))


def test_what_follows_the_last_member_must_be_gzip_or_zeros() -> None:
    with pytest.raises(zlib.error):
        list(inflated(io.BytesIO(gzip.compress(b"x") + b"not gzip")))


def test_an_error_comes_after_the_blocks_that_were_whole() -> None:
    def breaking() -> Iterator[bytes]:
        yield b"first"
        raise OSError("cable")

    with ahead(breaking()) as blocks:
        assert next(blocks) == b"first"
        with pytest.raises(OSError, match="cable"):
            next(blocks)
    assert not threads()


def test_a_reader_that_stops_ends_the_thread_although_the_source_has_no_end() -> None:
    read = 0

    def endless() -> Iterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield b"more"

    with ahead(endless()) as blocks:
        assert next(blocks) == b"more"
    assert not threads()
    assert read < 1000


def test_a_reader_that_fails_does_not_wait_for_a_source_that_sends_nothing() -> None:
    """Were the silent source waited for, this test would never end."""
    go_on, ended = threading.Event(), threading.Event()

    def silent() -> Iterator[bytes]:
        yield b"first"
        go_on.wait()
        ended.set()

    with contextlib.suppress(KeyboardInterrupt), ahead(silent()) as blocks:
        next(blocks)
        raise KeyboardInterrupt
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(30)


def test_blocks_are_read_to_a_clear_end() -> None:
    file = Blocks(iter([b"one", b"two"]))
    assert [file.read(BLOCK) for _ in range(4)] == [b"one", b"two", b"", b""]
    with pytest.raises(ValueError, match="too few"):
        file.read(BLOCK - 1)
