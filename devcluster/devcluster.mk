# The local cluster. The Makefile of the project includes this file; `devcluster --help` teaches the rest.
.PHONY: cluster cluster-down cluster-status
cluster: setup ## Working Kubernetes + Knative + Kourier + KServe + S3 on this machine
	@$(BIN)/python -m devcluster up

cluster-down: setup ## Remove the local cluster and everything that it left on this machine
	@$(BIN)/python -m devcluster down

cluster-status: setup ## Show what of the local cluster runs
	@$(BIN)/python -m devcluster status
