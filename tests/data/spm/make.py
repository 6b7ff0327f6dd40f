"""Makes the two SentencePiece models of the tests, and the ids that the Python package gives with them.

Run with sentencepiece 0.2.3 from PyPI: python3 make.py (in this folder).  Text: Shakespeare's sonnet 18.
"""
import sentencepiece as spm

SONNET = """Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date:
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade
Nor lose possession of that fair thou ow'st;
Nor shall Death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.
"""
LINES = ["Shall I compare thee to a summer's day?", "", "So long lives this", "caf\u00e9 \u6d77"]

for name, options in {
    "bytes": dict(byte_fallback=True, vocab_size=330),  # knows every byte, a newline too
    "plain": dict(byte_fallback=False, vocab_size=60),  # does not know a newline
}.items():
    spm.SentencePieceTrainer.train(sentence_iterator=iter(SONNET.splitlines()), model_prefix=name, model_type="unigram",
                                   normalization_rule_name="identity", num_threads=1, **options)
    model = spm.SentencePieceProcessor(model_file=name + ".model")
    print(name, "vocabulary", model.get_piece_size(), "newline", model.piece_to_id("<0x0A>"), "unknown", model.unk_id())
    for line in LINES:
        print(repr(line), model.encode(line))
