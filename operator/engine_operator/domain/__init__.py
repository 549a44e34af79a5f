"""Decisions of the operator, pure: no I/O, no clock, no kopf, no Kubernetes client.

Reading order: `names` and `keys` (identity), `engine` and `serval_facts` (what people and Serval want), `observed`
(what is), `actions` (what can be done), `plan` (the decision), `conditions` (how it is told).
"""
