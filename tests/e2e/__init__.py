"""The whole story on the real cluster; run inside its network by `make test-e2e`."""
