"""Names: valid, stable, and refused with numbers where no valid one exists."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine_operator.domain.keys import ArtifactKey, ConversionOptions, EngineId, Quantization
from engine_operator.domain.names import (
    LABEL_MAX,
    discovered_name,
    host_label,
    job_name,
    name_budget,
    namespace_budget,
    require_name,
    require_namespace,
    shorten,
    source_secret_name,
)
from engine_operator.errors import NameTooLong
from tests.support.cases import case

DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
OBJECT_IDS = st.text("0123456789abcdef", min_size=24, max_size=24).map(EngineId)
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,28}[a-z0-9])?", fullmatch=True)
KEYS = st.builds(
    lambda engine, revision, quantization: ArtifactKey.of(engine, revision, ConversionOptions(quantization)),
    OBJECT_IDS,
    st.integers(1, 10**12),
    st.sampled_from(list(Quantization)),
)


@case("D1", breaks="engine_operator.domain.names:discovered_name", naive=lambda engine_id: engine_id)
@given(OBJECT_IDS)
def test_d1_engine_ids_that_begin_with_a_digit_get_a_valid_name(engine_id: EngineId) -> None:
    name = discovered_name(engine_id)
    assert DNS_LABEL.fullmatch(name)
    assert name[1:] == engine_id
    assert len(name) == 25


@case("D1", breaks="engine_operator.domain.names:require_namespace", naive=lambda namespace: None)
def test_d1_namespace_that_leaves_no_room_is_refused_with_the_numbers() -> None:
    require_namespace("n" * 20)
    with pytest.raises(NameTooLong, match=r"40 characters.*25.*63.*at most 20") as refusal:
        require_namespace("n" * 40)
    assert not refusal.value.retryable


@case("D1", breaks="engine_operator.domain.names:require_name", naive=lambda name, namespace: None)
@given(NAMES, st.from_regex(r"[a-z][a-z0-9]{0,39}", fullmatch=True))
@example("a" * 30, "n" * 16)
@example("a" * 30, "n" * 15)
def test_d1_accepted_names_always_fit_into_a_host_label(name: str, namespace: str) -> None:
    fits = len(host_label(name, namespace)) <= LABEL_MAX
    if fits and len(name) <= 30:
        require_name(name, namespace)
    else:
        with pytest.raises(NameTooLong):
            require_name(name, namespace)


def test_budgets_are_the_two_sides_of_one_label() -> None:
    assert namespace_budget() == 20
    assert name_budget("n" * 20) == 25
    assert name_budget("n") == 30
    assert len("latest-" + "x" * 25 + "-predictor-" + "n" * 20) == 63


def _cut_without_hash(text: str, budget: int) -> str:
    return text[:budget]


@case("D1", breaks="engine_operator.domain.names:shorten", naive=_cut_without_hash)
def test_d1_names_with_an_equal_beginning_stay_apart_when_cut() -> None:
    first, second = "a" * 60 + "1", "a" * 60 + "2"
    assert shorten(first, 40) != shorten(second, 40)
    assert shorten(first, 40) == shorten(first, 40)


@given(st.from_regex(r"[a-z]([-a-z0-9]{0,80}[a-z0-9])?", fullmatch=True), st.integers(10, 63))
def test_cut_names_are_valid_and_within_budget(text: str, budget: int) -> None:
    cut = shorten(text, budget)
    assert len(cut) <= budget
    assert DNS_LABEL.fullmatch(cut)
    assert cut == text or len(text) > budget


@given(NAMES, KEYS, st.integers(1, 9), st.sampled_from(["converter@sha256:1", "converter@sha256:2"]))
def test_job_names_leave_room_for_their_pods(name: str, key: ArtifactKey, attempt: int, image: str) -> None:
    job = job_name(name, key, attempt, image)
    assert DNS_LABEL.fullmatch(job)
    assert len(job) + 6 <= LABEL_MAX
    assert f"-r{key.revision}-" in job
    assert len(source_secret_name(job)) <= 253


def test_job_name_differs_by_attempt_image_and_options_and_is_stable() -> None:
    key = ArtifactKey.of(EngineId("66c4a1f09d3e5b7a8c0f1e21"), 3, ConversionOptions())
    other = ArtifactKey.of(key.engine_id, 3, ConversionOptions(Quantization.FLOAT16))
    names = {
        job_name("spa", key, 1, "a"),
        job_name("spa", key, 2, "a"),
        job_name("spa", key, 1, "b"),
        job_name("spa", other, 1, "a"),
    }
    assert len(names) == 4
    assert job_name("spa", key, 1, "a") in names
