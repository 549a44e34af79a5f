"""Speed and size claims, measured as pairs within one run; `python -m benchmarks` runs them.

A claim stands here or nowhere: unit tests never time anything.
"""
