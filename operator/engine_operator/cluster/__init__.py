"""Everything the operator knows about Kubernetes: a client, builders of objects, and their translation to the domain.

Refuses to decide: what should exist is the domain's business. Reading order: `resources`, `connection`, `client`,
`lease`, `crs`, then the builders.
"""
