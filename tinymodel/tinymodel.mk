.PHONY: tiny-model widened-model
tiny-model: setup ## Remake the trained tiny model and its references (up to 45 minutes; torch goes to the cache)
	@PYTHONPATH=tinymodel $(BIN)/python -m tinymodel make

widened-model: setup ## The tiny model in the shape of NLLB-200 600M, answers unchanged (2.4 GB in the cache)
	@PYTHONPATH=tinymodel $(BIN)/python -m tinymodel widen tests/data/tiny-nllb
