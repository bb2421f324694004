"""The stage of `sightwords train all` that trains the grounded model (section 5, beyond the paper).

captions, features, detections, language model -> M-best lists of training images -> grounded/
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from sightwords.corpus import open_corpus
from sightwords.corpus.ids import canonical_id
from sightwords.errors import CorpusError
from sightwords.rerank.features import DOUBT
from sightwords.text.vocabulary import Vocabulary
from sightwords.text.vocabulary_file import load_vocabulary
from sightwords.train.dmsm.image_features import ImageFeatures
from sightwords.train.integrity import is_whole, summed_path
from sightwords.train.language.data import read_detections
from sightwords.train.rerank.list_metrics import measure, references_of
from sightwords.train.rerank.lists import Lists
from sightwords.train.rerank.make_lists import detected_words, make_lists
from sightwords.train.split import Figures, Split, Work, learning_examples

if TYPE_CHECKING:
    from sightwords.train.grounded.data import WordSet


def grounded_stage(job: Work) -> Figures:
    """Train the second language model on captions, then on lists; writes grounded/."""
    config = job.recipe.config.grounded
    if not config.enabled:
        return {"enabled": False}
    from sightwords.train.grounded.export import export_grounded
    from sightwords.train.grounded.run import fit_grounded
    from sightwords.train.grounded.training import EpochReport

    recipe, split = job.recipe, Split.load(job.inputs["vocabulary"])
    vocabulary = load_vocabulary(job.inputs["language"] / "language" / "vocabulary.json")
    captions = {canonical_id(e.id): e.captions for e in learning_examples(recipe, split)}
    lists = _training_lists(job, captions)
    job.say(0, len(lists), "lists to judge")
    rewards = measure(lists, references_of(lists, captions), processes=recipe.processes).cider

    def told(report: EpochReport, _: object) -> None:
        on_captions = report.phase == "captions"
        total = config.epochs if on_captions else config.risk_epochs
        job.say(report.epoch, total, f"epochs on {report.phase}")

    text = open_corpus(recipe.data.text) if recipe.data.text else ()
    network = fit_grounded(
        ImageFeatures.load(job.inputs["features"] / "learned-features.npz"),
        chain(learning_examples(recipe, split), text),
        lists,
        rewards,
        vocabulary=vocabulary,
        config=config,
        words=_words_of_images(job, vocabulary),
        device=recipe.device,
        folder=job.folder,
        on_epoch=told,
    )
    export = export_grounded(network, vocabulary, job.folder / "grounded", form=recipe.data.form)
    for checkpoint in job.folder.glob("*.checkpoint"):
        checkpoint.unlink()
    return {"images": len(captions), "lists": len(lists), "bytes": export.total_bytes}


def _words_of_images(job: Work, vocabulary: Vocabulary) -> dict[str, WordSet]:
    """The words of every image, those without a list too."""
    from sightwords.train.grounded.data import words_of_sets

    threshold = job.recipe.config.grounded.word_threshold
    found = read_detections(job.inputs["detections"] / "top-words.npz", threshold=threshold)
    return words_of_sets(found.attribute_sets(vocabulary))


def _training_lists(job: Work, captions: Mapping[str, Sequence[str]]) -> Lists:
    """M-best lists of training images, with the words of detectors that did not train on them."""
    path = job.folder / "lists.npz"
    if is_whole(path):  # a stopped run made them
        return Lists.load(path)
    config, language = job.recipe.config, job.inputs["language"] / "language"
    found = read_detections(job.inputs["detections"] / "top-words.npz", threshold=DOUBT)
    words = detected_words(
        found,
        load_vocabulary(language / "vocabulary.json"),
        minimum_prob=config.language.attribute_threshold,
    )
    said = [len(captions.get(canonical_id(name), ())) for name in found.names]
    enough = config.grounded.list_captions
    usable = [i for i, w in enumerate(words) if w.offered.any() and said[i] >= enough]
    usable = usable[: config.grounded.list_images or None]
    if not usable:
        raise CorpusError(
            f"no training image with {enough} captions or more (list_captions) has a detected "
            "word that captions use"
        )
    lists = make_lists(
        [canonical_id(found.names[i]) for i in usable],
        [words[i] for i in usable],
        language,
        replace(config.generation, coverage=config.grounded.list_coverage),
        minimum_prob=config.language.attribute_threshold,
        processes=job.recipe.processes,
        progress=lambda done, total: job.say(done, total, "lists"),
    )
    lists = lists.best(config.grounded.list_sentences, lists.per_word)
    with summed_path(path) as temporary:
        lists.save(temporary)
    return lists
