"""What CTranslate2's own converter makes of a checkpoint, as digests: the second source for every stored number.

It needs torch and transformers, which the project does without; so its result is committed, and this is how it was
made:  python -m tests.support.converter_reference tests/data/tiny-nllb > tests/data/ct2-converter.json
"""

import hashlib
import json
import sys
from importlib import metadata
from typing import Any

QUANTIZATIONS = ("float32", "float16", "int16", "int8", "int8_float16")
POSITION_ROWS = (0, 1, 2, 100, 1000)


def main() -> None:
    """Print the document for the checkpoint named by the first argument."""
    document: dict[str, Any] = {
        "made_by": {
            name: metadata.version(name) for name in ("ctranslate2", "torch", "transformers", "numpy")
        },
        "variables": {},
    }
    for quantization in QUANTIZATIONS:
        spec = _converted(sys.argv[1], quantization)
        document["variables"][quantization] = _digests(spec)
        if quantization == "float32":
            document["vocabulary"] = _vocabulary(spec)
            table = spec.variables()["decoder/position_encodings/encodings"].numpy()
            document["positions"] = {
                str(row): [float(value) for value in table[row]] for row in POSITION_ROWS
            }
    json.dump(document, sys.stdout, indent=1)
    sys.stdout.write("\n")


def _converted(checkpoint: str, quantization: str) -> Any:
    from ctranslate2.converters import TransformersConverter

    # The public way writes a file, whose format nothing in the library can read again.
    spec = TransformersConverter(checkpoint)._load()
    spec.validate()
    spec.optimize(quantization=quantization)
    return spec


def _digests(spec: Any) -> dict[str, Any]:
    variables = spec.variables()
    found = {}
    for name, variable in sorted(variables.items()):
        while isinstance(variable, str):
            variable = variables[variable]
        digest = hashlib.sha256(bytes(variable.to_bytes())).hexdigest()
        found[name] = {"dtype": variable.dtype, "shape": list(variable.shape), "sha256": digest}
    return found


def _vocabulary(spec: Any) -> dict[str, Any]:
    tokens = spec._vocabularies["source"][0]
    return {"rows": len(tokens), "sha256": hashlib.sha256("\n".join(tokens).encode()).hexdigest()}


if __name__ == "__main__":
    main()
