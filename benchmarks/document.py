"""Writes `docs/benchmarks.md` from `benchmarks/results/*.json`, so that no figure is ever copied by hand."""

import json
from typing import Any

from benchmarks.report import RESULTS, ROOT

HEAD = """# Benchmarks

Written by `make bench` from `benchmarks/results/`; do not edit. Times hold for the machine named with them only;
ratios are between two things measured in the same run. `make bench NAME=conversion` repeats one.
"""


def _figure(figure: dict[str, Any]) -> str:
    low, high = figure["spread"]
    spread = f"{low:.3g} to {high:.3g} (n={len(figure['samples'])})" if len(figure["samples"]) > 1 else ""
    target = "" if figure["target"] is None else f"{figure['comparison']} {figure['target']:g}"
    verdict = "" if figure["target"] is None else ("met" if figure["met"] else "**missed**")
    return f"| {figure['name']} | {figure['value']:.4g} {figure['unit']} | {spread} | {target} | {verdict} |"


def _section(document: dict[str, Any]) -> str:
    machine = document["machine"]
    rows = "\n".join(_figure(figure) for figure in document["figures"])
    notes = "".join(f"\n- {note}" for note in document["notes"])
    return (
        f"## {document['name']}\n{document['method']}\n\n"
        f"| figure | value | spread | target | |\n| --- | --- | --- | --- | --- |\n{rows}\n{notes}\n\n"
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memoryGiB']} GiB, Linux {machine['kernel']}, Python "
        f"{machine['python']}, load before {machine['loadBefore']}; commit {document['commit']}, "
        f"{document['measured']}.\n"
    )


def write_document() -> None:
    """Render every kept result into `docs/benchmarks.md`."""
    documents = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    (ROOT / "docs" / "benchmarks.md").write_text(HEAD + "\n" + "\n".join(_section(d) for d in documents))
