"""Artifact keys."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from engine_operator.domain.keys import (
    ArtifactKey,
    ConversionOptions,
    EngineId,
    Quantization,
    attempt_id,
    installation_name,
    model_engine_id,
)
from nllb_predictor.convert.manifest import Options, artifact_key

ENGINE = EngineId("66c4a1f09d3e5b7a8c0f1e21")


def test_key_is_engine_revision_format_and_options() -> None:
    options = hashlib.sha256(b'{"quantization":"int8","vocabularyTrim":false}').hexdigest()[:8]
    assert str(ArtifactKey.of(ENGINE, 3, ConversionOptions())) == f"{ENGINE}/r3/ct2v1-{options}"


def test_the_converter_finds_the_same_key_also_where_it_is_one_of_the_options() -> None:
    for image in (None, "registry.example/predictor@sha256:2"):
        ours = ArtifactKey.of(ENGINE, 3, ConversionOptions(converter=image or ""))
        assert str(ours) == artifact_key(ENGINE, 3, Options(), image)


@given(
    st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True),
    st.integers(0, 10**9),
    st.sampled_from(list(Quantization)),
)
def test_key_can_be_read_back(engine: str, revision: int, quantization: Quantization) -> None:
    key = ArtifactKey.of(EngineId(engine), revision, ConversionOptions(quantization))
    assert ArtifactKey.parse(f"{key}/") == key


def test_other_text_is_no_key() -> None:
    assert ArtifactKey.parse("models/66c4_3.tar.gz") is None
    assert ArtifactKey.parse(f"{ENGINE}/r3") is None


def test_attempt_is_another_folder_for_another_image() -> None:
    key = ArtifactKey.of(ENGINE, 3, ConversionOptions())
    assert attempt_id(key, 1, "a") != attempt_id(key, 1, "b")
    assert attempt_id(key, 1, "a").startswith("a1-")


def test_a_model_under_another_uri_is_another_model() -> None:
    assert model_engine_id("base", "s3://a/nllb") != model_engine_id("base", "s3://a/nllb2")


def test_installations_of_two_clusters_never_meet() -> None:
    assert installation_name("1a2b3c4d-5e6f", "live", "main") == "1a2b3c4d-live-main"
    assert installation_name("1a2b3c4d-5e6f", "live", None) == "1a2b3c4d-live-_models"
