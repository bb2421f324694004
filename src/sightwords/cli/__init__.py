"""The command line: one file per verb, each mirroring a library call."""
