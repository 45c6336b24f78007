from __future__ import annotations

from driftless.data.preprocessing.words import encode

VOCABULARY = ["the", "cat", "sat"]  # 1, 2, 3; unknown 4, begin 5, end 6


def test_a_sentence_is_begun_ended_padded_and_cut_as_in_tff():
    sentences = [["the", "cat"], ["a", "cat", "sat"], ["the", "cat", "sat", "the"], ["the"] * 9]
    rows = encode(sentences, VOCABULARY, 4)
    assert rows.tolist() == [[5, 1, 2, 6, 0], [5, 4, 2, 3, 6], [5, 1, 2, 3, 1], [5, 1, 1, 1, 1]]
