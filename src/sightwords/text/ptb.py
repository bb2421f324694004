"""Placeholder written while the port is under way."""
TOKENIZER = "ptb-coco"
def tokenize_all(captions: list[str]) -> list[list[str]]:
    raise NotImplementedError
