"""Everything the operator knows about Serval's HTTP interface: its shapes, its client, and the cursor's rules.

Refuses to decide anything about engines: it reports what Serval said, and how sure that is.
Reading order: `dto`, `auth`, `client`, `events`.
"""
