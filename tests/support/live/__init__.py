"""The real cluster as a test, a benchmark or the demo sees it: objects, installs, stores, and callers that never stop.

Everything here runs inside the cluster's network (`devcluster exec`), and knows nothing of pytest.
"""
