"""Dashboard and alerts: rendered by the chart, in PromQL's grammar, about figures that exist."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import REGISTRY

from engine_operator.metrics import REGISTRY as OPERATOR
from nllb_predictor.server import metrics as predictor
from tests.unit.chart.conftest import CHART, ROOT, Render

FOLDER = CHART / "files" / "monitoring"
FIGURE = re.compile(r"\bserval_live_\w+")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
    return found


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"].replace("$namespace", "serval-live")
    for rule in alerts():
        yield rule["alert"], rule["expr"]


def figures() -> set[str]:
    """Names of all samples that the two parts can send."""
    assert predictor.REQUESTS, "imported for its side effect"
    found = set()
    for registry in (OPERATOR, REGISTRY):
        for metric in registry.collect():
            ends = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(
                metric.type, ("",)
            )
            found |= {metric.name + end for end in ends}
    return found


@pytest.mark.parametrize(("where", "expression"), list(expressions()))
def test_every_expression_is_promql_about_figures_that_exist(where: str, expression: str) -> None:
    promql_parser.parse(expression)
    named = set(FIGURE.findall(expression))
    assert named, where
    assert named <= figures(), where


def test_a_misspelt_figure_would_be_noticed() -> None:
    assert "serval_live_requests_total" in figures()
    assert "serval_live_request_total" not in figures()


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    for rule in alerts():
        assert {"summary", "description"} <= set(rule["annotations"]), rule["alert"]
        assert rule["labels"]["severity"] in {"warning", "critical"}, rule["alert"]
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len(set(names))


def test_the_dashboard_is_what_its_script_makes() -> None:
    subprocess.run([sys.executable, str(ROOT / "scripts" / "make-dashboard"), "--check"], check=True)


def test_no_two_panels_share_a_place_or_an_id() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


def test_the_chart_renders_both_where_they_are_wanted_and_only_there(render: Render) -> None:
    plain = render({}).objects
    assert not [
        each for each in plain if each["kind"] == "PrometheusRule" or "dashboard" in str(each["metadata"])
    ]
    values = {
        "metrics": {"rules": {"enabled": True, "labels": {"team": "a"}}, "dashboard": {"enabled": True}}
    }
    objects = render(values).objects
    (rule,) = [each for each in objects if each["kind"] == "PrometheusRule"]
    assert [one["alert"] for group in rule["spec"]["groups"] for one in group["rules"]] == [
        one["alert"] for one in alerts()
    ]
    assert rule["metadata"]["labels"]["team"] == "a"
    (board,) = [each for each in objects if each["kind"] == "ConfigMap"]
    assert json.loads(board["data"]["serval-live.json"]) == dashboard()
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
