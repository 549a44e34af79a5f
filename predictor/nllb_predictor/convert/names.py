"""Names of files in a checkpoint, apart from all code that reads them."""

CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"
TOKENIZER_FILE = "tokenizer.json"
TOKENIZER_CONFIG_FILE = "tokenizer_config.json"
SENTENCEPIECE_FILE = "sentencepiece.bpe.model"
ADDED_TOKENS_FILE = "added_tokens.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

PICKLE_NAMES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack")
"""Weights in forms that are never read. Only their names are looked at."""

CHECKPOINT_FILES = (
    CONFIG_FILE,
    GENERATION_FILE,
    TOKENIZER_FILE,
    TOKENIZER_CONFIG_FILE,
    "special_tokens_map.json",
    ADDED_TOKENS_FILE,
    SENTENCEPIECE_FILE,
    INDEX_FILE,
)
"""The files besides weights that a conversion reads; anything else in an archive or on a hub stays there."""

SERVED_FILES = (
    TOKENIZER_FILE,
    TOKENIZER_CONFIG_FILE,
    "special_tokens_map.json",
    ADDED_TOKENS_FILE,
    GENERATION_FILE,
)
"""Files of the checkpoint that go with the model. Its `config.json` does not: CTranslate2 has one of that name."""
