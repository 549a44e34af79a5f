"""Size of each image's layers above its base, read from the images themselves."""

import json
import subprocess
import sys

from benchmarks.report import ROOT, Figure, Report

TARGETS = {"predictor": 550, "operator": 130, "predictor-gpu": None}
"""Limits in megabytes (10^6 bytes); the GPU image has none, since cuBLAS alone is larger than everything else."""


def _devcluster(*arguments: str) -> str:
    command = [sys.executable, "-m", "devcluster", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def run() -> Report:
    """Build the images of this tree and measure them."""
    pairs = []
    for target in TARGETS:
        name = _devcluster("image-name", "--target", target)
        _devcluster("build-image", "--target", target, "--tag", name)
        pairs.append(f"{target}={name}")
    sizes = subprocess.run(
        [sys.executable, "scripts/image-sizes", "--json", *pairs],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    found = json.loads(sizes.stdout)
    figures = tuple(
        Figure(target, found[target]["megabytes"], "MB", "<=" if limit else "report", limit)
        for target, limit in TARGETS.items()
    )
    return Report("images", "Uncompressed layers above debian:bookworm-slim.", figures)
