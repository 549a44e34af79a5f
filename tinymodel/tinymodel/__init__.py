"""The tiny model: a real, trained translation model of NLLB's architecture, small enough to be test data.

Why it exists: a converter, a predictor and a benchmark can only be judged on a model that was trained, that ends its
sentences and that has somebody else's reference outputs. This package makes that model from two public-domain Bible
texts, records what `transformers` does with it, widens it to the shape of NLLB-200 600M, and packs it the way Serval
packs its models.

What it refuses to do: to be part of a deployment. Nothing here is imported by the predictor or the operator, and torch
is needed by `train` and `references` only, in a virtual environment of their own.

Reading order: settings, clean, align, sword, corpus, vocabulary, checkpoint, train, references, quality; then widen
and variants; cli ties them together.
"""
