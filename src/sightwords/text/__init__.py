"""Text: tokens, vocabulary, letter trigrams and parts of speech."""
