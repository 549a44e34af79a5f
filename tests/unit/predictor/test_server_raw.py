"""Which sources are raw checkpoints, and when one is converted again."""

import os
from pathlib import Path

from nllb_predictor.server.raw import cache_name, is_raw


def folder(path: Path, *names: str) -> str:
    path.mkdir()
    for name in names:
        (path / name).write_bytes(b"x")
    return str(path)


def test_an_archive_and_a_folder_of_weights_are_raw(tmp_path: Path) -> None:
    assert is_raw("s3://models/production/models/66c4_3.tar.gz")
    assert is_raw(str(tmp_path / "66c4_3.tar.gz"))
    assert is_raw(folder(tmp_path / "one", "model.safetensors", "config.json"))
    assert is_raw(folder(tmp_path / "shards", "model-00001-of-00002.safetensors", "config.json"))


def test_a_converted_model_and_an_empty_folder_are_not(tmp_path: Path) -> None:
    assert not is_raw("s3://bucket/artifacts/66c4/r3/ct2v1-1a2b3c4d/")
    assert not is_raw(folder(tmp_path / "converted", "manifest.json", "model.bin"))
    assert not is_raw(folder(tmp_path / "foreign", "model.bin", "model.safetensors"))
    assert not is_raw(folder(tmp_path / "empty"))


def test_a_changed_source_or_another_quantization_has_another_place_in_the_cache(tmp_path: Path) -> None:
    source = folder(tmp_path / "source", "model.safetensors", "config.json")
    name = cache_name(source, "int8")
    assert cache_name(source, "int8") == name
    assert cache_name(source, "float32") != name
    os.utime(tmp_path / "source" / "model.safetensors", ns=(1, 1))
    assert cache_name(source, "int8") != name
