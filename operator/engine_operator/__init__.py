"""The operator: follows Serval, converts finished models, rolls them out on KServe, and collects what is left over.

Reading order: `domain` (what is decided, pure), `cluster.builders` (what the decided objects look like), then the
edges and loops. Nothing here imports the predictor.
"""
