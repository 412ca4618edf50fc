"""Similarity of the two paths against NumPy, sentence by sentence; held-out sentences on their way into the decoder."""

import dataclasses

import numpy as np
import pytest
import soundfile
import tiny_store
import torch

from npda import audio
from npda.corpus.manifest import Utterance
from npda.corpus.pairs import Pair
from npda.evaluation import devset as devset_module
from npda.evaluation.devset import DevSet
from npda.evaluation.similarity import similarity
from npda.io.errors import InputError


@pytest.fixture(scope="module")
def spoken(tmp_path_factory) -> list[Utterance]:
    """Noise of different lengths under sentences of different lengths."""
    directory, random = tmp_path_factory.mktemp("audio"), np.random.default_rng(0)
    utterances = []
    for pair, seconds in zip(tiny_store.pairs(5), (0.5, 1.1, 0.4, 0.9, 0.7), strict=True):
        samples = random.normal(scale=0.1, size=int(16_000 * seconds))
        soundfile.write(directory / f"{pair.id}.wav", samples, 16_000)
        frames = audio.frame_count(len(samples))
        utterances.append(Utterance(pair.id, str(directory / f"{pair.id}.wav"), frames, pair.tgt_text, pair.src_text))
    return utterances


@torch.inference_mode()
def states_alone(model, sentence, way, language=None) -> np.ndarray:
    """[positions, dim] of one sentence, without batches."""
    prompt = model.prompt(language)
    tokens = torch.tensor([[*prompt, *model.target.encode(sentence.tgt_text)]])
    if way == "speech":
        features = torch.from_numpy(model.features(audio.load(sentence.audio)))[None]
        memory = model.hear(features, torch.tensor([features.shape[1]]))
    else:
        source = torch.tensor([model.source.encode(sentence.src_text)])
        memory = model.read(source, torch.tensor([source.shape[1]]))
    return model.states(memory, tokens)[0, len(prompt) - 1 :].double().numpy()


def test_similarity_is_what_numpy_says(spoken):
    model = tiny_store.backbone()
    cosines, distances = [], []
    for utterance in spoken:
        h, r = (states_alone(model, utterance, way) for way in ("speech", "text"))
        cosines.append(np.mean((h * r).sum(1) / np.linalg.norm(h, axis=1) / np.linalg.norm(r, axis=1)))
        distances.append(np.mean(((h - r) ** 2).sum(1)))
    found = similarity(model, spoken)
    assert found.sentences == 5
    np.testing.assert_allclose(
        [found.cosine, found.squared_distance], [np.mean(cosines), np.mean(distances)], rtol=1e-4
    )


def test_what_only_one_path_takes_is_not_compared(spoken):
    model = tiny_store.backbone()
    too_long = dataclasses.replace(spoken[1], n_frames=model.max_frames + 1)
    assert similarity(model, [spoken[0], too_long, spoken[2]]) == similarity(model, [spoken[0], spoken[2]])
    with pytest.raises(InputError, match=r"'3' has no src_text"):
        similarity(model, [spoken[0], dataclasses.replace(spoken[3], src_text=" ")])


@pytest.mark.parametrize("kept", [2**29, 0])
@pytest.mark.parametrize("way", ["speech", "text"])
def test_a_devset_gives_the_states_of_sentences_alone(spoken, way, kept, monkeypatch):
    """In any batch, with two languages, and whether or not there is room to keep what the encoder made."""
    monkeypatch.setattr(devset_module, "_KEPT_BYTES", kept)
    monkeypatch.setattr(devset_module, "_SENTENCES", 2)
    model = tiny_store.backbone(languages=("de", "fr"))
    sentences = [dataclasses.replace(u, tgt_lang="fr" if i % 2 else "") for i, u in enumerate(spoken)]
    devset = DevSet(model, sentences, way, language="de")
    assert sorted(place for batch in devset.batches for place in batch.places) == [0, 1, 2, 3, 4]
    assert len(devset.batches) == 3
    for _ in range(2):
        for batch in devset.batches:
            for place, states in zip(batch.places, devset.states(batch, devset.memory(batch)), strict=True):
                expected = states_alone(model, sentences[place], way, sentences[place].tgt_lang or "de")
                np.testing.assert_allclose(states.numpy(), expected, atol=1e-4)


def test_sentences_without_room_are_left_out_and_counted():
    model = tiny_store.backbone()
    endless = " ".join(["Boden"] * model.max_target)
    devset = DevSet(model, [Pair("the floor", endless), Pair("the floor", "der Boden")], "text")
    assert (devset.references, devset.skipped) == (["der Boden"], 1)
    with pytest.raises(InputError, match="None of the 1 dev sentences fits"):
        DevSet(model, [Pair("the floor", endless)], "text")
    model.source = None
    with pytest.raises(InputError, match="cannot read text"):
        DevSet(model, [Pair("the floor", "der Boden")], "text")
