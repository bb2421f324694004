"""Training, the stages in the order of the pipeline; the only place where torch may be imported.

Open: `words`, `calibration`, `language`, `dmsm`, `mert`.
"""
