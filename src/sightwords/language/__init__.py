"""Section 4: detected words -> an M-best list of sentences.

Open, in stage order: `features` (Table 1), `maxent` (Eq. 3), `beam` and `mbest` (section 4.2).
"""
