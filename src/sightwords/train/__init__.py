"""Training, the stages in the order of the pipeline; the only place where torch may be imported.

`detector`, `words` (section 3.1), `calibration` (3.2), `language` (4.1), `dmsm` (5.1), `mert` (5).
"""
