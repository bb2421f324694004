"""How captions spell words: captions -> {"mann": "Mann"}, for languages that capitalise nouns.

Tokens are lower-case, and so are vocabularies; a caption should not be.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

_WORD = re.compile(r"\w+(?:[-'’]\w+)*")


def written_forms(captions: Iterable[str], words: Collection[str]) -> dict[str, str]:
    """Of each word the form that captions have most often, where that is not the word itself.

    The first word of a caption tells nothing: there every word is capitalised. Of forms equally
    often the lower-case one is taken, then the first by code points.

    >>> written_forms(["Ein Mann geht.", "der Mann isst Äpfel"], ["mann", "ein", "äpfel"])
    {'mann': 'Mann', 'äpfel': 'Äpfel'}
    """
    wanted = frozenset(words)
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for caption in captions:
        for match in _WORD.findall(caption)[1:]:
            word = match.lower()
            if word in wanted and len(word) == len(match):
                forms[word][match] += 1
    best = {
        word: min(seen, key=lambda form: (-seen[form], form != word, form))
        for word, seen in forms.items()
    }
    return {word: best[word] for word in words if best.get(word, word) != word}
