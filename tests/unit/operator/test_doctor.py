"""What `engine-operator doctor` says of Knative's settings, good or not, and that the page about them is complete."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine_operator.cluster.resources import ENGINES, INFERENCE_SERVICES, REVISIONS, SERVAL_SOURCES
from engine_operator.commands.doctor import findings, knative_findings, name_finding
from engine_operator.domain.observed import KnativeSettings
from engine_operator.settings import Settings
from tests.support.fake_cluster import FakeCluster

GOOD = KnativeSettings(True, True, 900, "{{.Name}}-{{.Namespace}}.{{.Domain}}", 0)
PAGE = (Path(__file__).parents[3] / "docs" / "install.md").read_text(encoding="utf-8")


def test_good_settings_are_shown_too() -> None:
    found = knative_findings(GOOD, "knative-serving")
    assert [one.good for one in found] == [True, True, True, True]
    assert "max-revision-timeout-seconds is 900" in found[2].what


def test_settings_that_cannot_be_read_are_called_by_name_and_no_problem() -> None:
    found = [*knative_findings(KnativeSettings(), "knative-serving"), name_finding(KnativeSettings(), "ruth")]
    assert {one.good for one in found} == {None}
    for name in ("allow-zero-initial-scale", "pod-is-always-schedulable", "max-revision-timeout-seconds"):
        assert any(f"{name} can't be read" in one.what for one in found)
    assert "domain-template can't be read" in found[-1].what


def test_a_short_time_out_comes_with_the_command_that_raises_it() -> None:
    (told,) = [
        one
        for one in knative_findings(replace(GOOD, max_revision_timeout_seconds=600), "knative")
        if not one.good
    ]
    assert "kubectl patch configmap config-defaults" in told.what


def test_advice_names_the_namespace_that_was_looked_into() -> None:
    (told,) = [
        one for one in knative_findings(replace(GOOD, allow_zero_initial_scale=False), "kn") if not one.good
    ]
    assert """configmap config-autoscaler -n kn --type merge -p '{"data":{"allow-zero""" in told.what


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{{.Name}}-{{.Namespace}}.{{.Domain}}", "joins"),
        ("{{.Name}}.{{.Namespace}}.{{.Domain}}", "apart"),
        ("{{ .Name }}-{{ .Namespace }}.example.org", "joins"),
        ("{{.Name}}.{{.Domain}}", "apart"),
    ],
)
def test_the_domain_template_is_shown_with_what_it_does_to_names(template: str, words: str) -> None:
    found = name_finding(replace(GOOD, domain_template=template), "serval-live")
    assert found.good is True
    assert f"{template} " in found.what
    assert words in found.what


def test_the_arithmetic_of_names_is_that_of_a_real_label() -> None:
    namespace = "serval-live"
    label = f"latest-e66c4a1f09d3e5b7a8c0f1e21-predictor-{namespace}"
    assert f"= {len(label)} of 63" in name_finding(GOOD, namespace).what
    assert name_finding(GOOD, "a" * 20).good is True
    assert name_finding(GOOD, "a" * 21).good is False


async def test_in_standard_mode_nothing_is_asked_or_advised_of_knative() -> None:
    cluster = FakeCluster()
    for resource in (SERVAL_SOURCES, ENGINES, INFERENCE_SERVICES):
        cluster.put(resource.path("ns"), {"items": []})
    settings = Settings(deployment_mode="Standard")
    client = cluster.client(may_lack=settings.may_lack())
    found = [one async for one in findings(settings, client, "ns")]
    assert [one.good for one in found] == [True] * len(found)
    assert "Standard mode" in found[-1].what
    assert not [one for one in cluster.requests if "knative" in one.url.path or "configmaps" in one.url.path]

    cluster.put(REVISIONS.path("ns"), {"items": []})
    advised = [one async for one in findings(Settings(), cluster.client(), "ns")]
    assert any("Knative's" in one.what and one.good is None for one in advised)


def test_the_page_says_exactly_which_settings_doctor_reads() -> None:
    (sentence,) = re.findall(r"`engine-operator doctor` reads ([^:]*?)\. It does not", PAGE, re.DOTALL)
    assert set(re.findall(r"`([a-z-]+)`", sentence)) == {
        "allow-zero-initial-scale",
        "pod-is-always-schedulable",
        "max-revision-timeout-seconds",
        "revision-response-start-timeout-seconds",
        "domain-template",
    }
