"""Where and how a training runs: nothing here changes what is trained, only speed and places."""

from __future__ import annotations

from dataclasses import dataclass

from sightwords.config.check import check


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Table [run]; not part of the settings that are saved beside a model."""

    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, ...; `auto`: a GPU where there is one."""
    threads: int = 0
    """CPU threads; 0: all, and one for the language model, where more are faster and not
    reproducible bit for bit."""
    workers: int = 0
    """Processes: they decode images (words; 0: one per core), read text that is larger than memory
    (language; 0: text is kept in memory), or make candidate lists (mert; 0: no extra process)."""
    work: str = ""
    """Folder of intermediate results: finished stages, decoded images, checkpoints; empty: a
    folder named `training`, in or beside the output folder."""
    stream: bool = False
    """Decode shards while training the detector; off: decoded images are kept in `work`."""
    keep_decoded: str = ""
    """With `stream`: keep decoded images in this folder, on a disk of this machine, for the next
    epoch, as long as a tenth of the disk is free."""
    compile: bool = False
    """Use torch.compile for the detector."""
    tensorboard: str = ""
    """Write TensorBoard logs of the detector's training into this folder."""
    proposals: str = ""
    """Boxes of every image (JSON lines): find words in them instead of on a grid."""
    features: tuple[str, ...] = ()
    """NPZ files with features of the images, made earlier, instead of running the detector."""

    def __post_init__(self) -> None:
        for name in ("threads", "workers"):
            check(self, name, getattr(self, name) >= 0, "at least 0")
