"""From a request's texts to its answers, in stages: prepare, search, guard, describe, join.

No protocol is known here.
"""
