"""The artifact store: what lies in our installation's folder, and whether we may work there at all.

Refuses to touch a key outside its own installation, and to learn from a listing what to load: the manifest names that.
Reading order: `manifest`, `address`, `artifacts`, `owner`, `preflight`.
"""
