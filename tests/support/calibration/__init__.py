"""Holds the simulator of KServe's and Knative's controllers to what the real ones do.

One scenario (`scenario`) runs on a real cluster and on the simulator; both are watched in the same way (`watching`),
and what was seen is a recording (`recording`): for each step, every value that each observable took, in order. Equal
up to timing means: the same values of each observable in the same order within each step, whatever came between them.
`python -m tests.support.calibration` records the real ones again and keeps them under `tests/data/calibration`; a test
runs the simulator against that file.

Reading order: `recording`, `watching`, `service`, `scenario`, `real`, `simulated`.
"""
