"""A real Kubernetes + Knative + Kourier + KServe + S3 on one Linux machine, for development and tests.

Why it exists: the project is tested against the real parts, on machines that may have no container engine and no
registry. Everything is built from source by version, runs inside one network, mount and process namespace, and goes
away without a trace.

What it refuses to do: serve production, reach beyond the namespaces it made, or touch the host's network.

Reading order: `versions` and `settings` (what and where), `go_modules` and `programs` (binaries), `control_plane`
(etcd and apiserver on loopback), `sandbox`, `node` and `install` (the full cluster), `cluster` (the order of it all),
`cli`.
"""
