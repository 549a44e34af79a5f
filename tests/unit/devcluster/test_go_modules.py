"""What is built, from the pins."""

import dataclasses
from pathlib import Path

import pytest

from devcluster import go_modules, programs, versions
from devcluster.errors import HostUnfit, UsageError
from devcluster.versions import Versions


@pytest.fixture
def pins() -> Versions:
    return versions.load()


def test_the_pins_name_the_kserve_sdk_that_the_predictor_is_installed_with(pins: Versions) -> None:
    constraints = (versions.REPOSITORY / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert f"kserve=={pins.kserve_sdk}" in constraints


def test_a_missing_pin_is_an_error_that_names_it(tmp_path: Path) -> None:
    text = (versions.REPOSITORY / "versions.toml").read_text(encoding="utf-8")
    broken = tmp_path / "versions.toml"
    broken.write_text(text.replace("[coredns]", "[core-dns]"), encoding="utf-8")
    with pytest.raises(UsageError, match="coredns"):
        versions.load(broken)


def test_every_staging_library_is_replaced_by_the_same_release(pins: Versions) -> None:
    text = go_modules.modules(pins)["kubernetes"].go_mod()
    minor = pins.kubernetes.removeprefix("1.")
    assert f"replace k8s.io/client-go => k8s.io/client-go v0.{minor}" in text
    replaced = [line.split()[1] for line in text.splitlines() if line.startswith("replace")]
    assert len(replaced) == len(set(replaced))


def test_servers_report_the_version_that_was_asked_for(pins: Versions) -> None:
    variables = dict(go_modules.modules(pins)["kubernetes"].link_variables)
    assert variables["k8s.io/component-base/version.gitVersion"] == f"v{pins.kubernetes}"
    assert variables["k8s.io/client-go/pkg/version.gitVersion"] == f"v{pins.kubernetes}"


def test_knative_and_kourier_share_a_module_but_keep_their_versions(pins: Versions) -> None:
    packages = go_modules.modules(pins)["knative"].packages()
    assert f"knative.dev/net-kourier/cmd/kourier@v{pins.net_kourier}" in packages
    assert f"knative.dev/serving/cmd/queue@v{pins.knative_serving}" in packages


def test_kserve_repeats_the_replacements_that_dependents_do_not_inherit(pins: Versions) -> None:
    text = go_modules.modules(pins)["kserve"].go_mod()
    for old, new in pins.kserve_replace:
        assert f"replace {old} => {new}" in text
    assert f"go {pins.kserve_go}" in text


@pytest.mark.parametrize("go", ["go1.26.8", "go1.27.0"])
def test_a_new_pin_or_a_new_go_builds_into_another_folder(pins: Versions, go: str) -> None:
    module = go_modules.modules(pins)["coredns"]
    newer = go_modules.modules(dataclasses.replace(pins, coredns="9.9.9"))["coredns"]
    assert module.key(go) != newer.key(go)
    assert module.key(go) != module.key("go1.0")
    assert module.key(go) == go_modules.modules(pins)["coredns"].key(go)


def test_each_program_is_built_by_exactly_one_module(pins: Versions) -> None:
    names = [name for module in go_modules.modules(pins).values() for name, _ in module.tools]
    assert len(names) == len(set(names))


def test_groups_name_modules_that_exist(pins: Versions) -> None:
    known = go_modules.modules(pins)
    assert {name for names in go_modules.GROUPS.values() for name in names} <= set(known)


@pytest.mark.parametrize("version", ["go1.19.8", "go1.20"])
def test_a_go_that_is_too_old_is_told_where_a_newer_one_is(version: str) -> None:
    with pytest.raises(HostUnfit, match=rf"{version} is too old .*go\.dev"):
        programs.sufficient(version)


@pytest.mark.parametrize("version", ["go1.21.0", "go1.26.8", "devel go1.28-abc"])
def test_a_go_that_can_fetch_what_it_lacks_is_taken(version: str) -> None:
    assert programs.sufficient(version) == version


def test_a_machine_without_go_is_told_to_install_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    programs.go_version.cache_clear()
    with pytest.raises(HostUnfit, match=r"go\.dev"):
        programs.go_version()
