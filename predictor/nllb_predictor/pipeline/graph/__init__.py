"""Serval's word graph of a segment: what else the model might write at each place, for a translator who types.

`explore` asks the model, `paths` turns its hypotheses into rows of words, `lattice` shares what they have in common,
`whole` makes one graph of all sentences.
"""
