"""devcluster against an API server that it did not start for itself."""
