"""From a HuggingFace checkpoint to a CTranslate2 model with a manifest, without torch.

Reading order: `source` (where the checkpoint comes from), `archive` (unpacking), `checkpoint` (tensors),
`vocabulary`, `weights` (tensors into CTranslate2's specification), `quantize`, `selftest`, `manifest`, `run`.
"""
