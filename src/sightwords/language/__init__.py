"""Section 4: detected words -> an M-best list of sentences.

In stage order: `features` (Table 1), `maxent` (Eq. 3), `beam` with its extensions in `extend` and
the user's `constraints`, `mbest` (section 4.2). `generate` combines them, `sample` draws sentences
without an image.
"""
