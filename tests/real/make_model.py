"""Make a Llama model of random weights, with a tokenizer of its own, from nothing but this machine.

    python tests/real/make_model.py --preset small --out DIR

writes `DIR/model.gguf` (Q8_0, for llama.cpp) and `DIR/words.txt`: words that are one token each when a space stands
before them, so that a prompt of a wanted length can be written. What the model says means nothing; what it costs to
say it (prefill, decode, slots, streaming) is real. The same preset and seed give the same file.
"""

from __future__ import annotations

import argparse
import json
import pydoc_data.topics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTEXT = 8192
SPECIAL = ("<|pad|>", "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a model: widths in numbers of weights."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int


PRESETS = {
    "tiny": Shape(128, 2, 4, 2, 384, 1024),  # 0.7 M weights: quick enough to count leaks by the thousand
    "small": Shape(384, 6, 6, 3, 1024, 2048),  # some 3 requests of the tests' mix a second on one slow core
    "medium": Shape(512, 8, 8, 4, 1536, 2048),  # the same on one fast core
}


def train_tokenizer(vocabulary: int) -> Any:
    """A byte-level BPE trained on the help topics that every CPython carries."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    topics = pydoc_data.topics.topics
    tokenizer.train_from_iterator([topics[name] for name in sorted(topics)], trainer)
    if tokenizer.get_vocab_size() != vocabulary:
        raise SystemExit(f"the help topics gave {tokenizer.get_vocab_size()} tokens, not {vocabulary}")
    return tokenizer


def one_token_words(tokenizer: Any) -> list[str]:
    """Lower-case words that are one token when a space stands before them."""
    texts = (tokenizer.decode([index]) for index in range(len(SPECIAL), tokenizer.get_vocab_size()))
    words = sorted({text[1:] for text in texts if text[:1] == " " and text[1:].isascii() and text[1:].islower()})
    return [word for word in words if word.isalpha() and len(tokenizer.encode(" " + word).ids) == 1]


def tensors(shape: Shape, printable: list[bool], seed: int) -> Iterator[tuple[str, Any]]:
    """Every tensor by its GGUF name. Rows of the head for tokens that do not print are zero: greedy text is plain
    ASCII and never ends by itself."""
    import numpy as np

    random = np.random.default_rng(seed)

    def matrix(rows: int, columns: int, gain: float = 1.0) -> Any:
        return random.standard_normal((rows, columns), dtype=np.float32) * np.float32(gain / columns**0.5)

    head_width = shape.hidden // shape.heads
    yield "token_embd.weight", matrix(shape.vocabulary, shape.hidden, gain=shape.hidden**0.5)
    head = matrix(shape.vocabulary, shape.hidden, gain=4.0)
    head[~np.asarray(printable)] = 0.0
    yield "output.weight", head
    yield "output_norm.weight", np.ones(shape.hidden, np.float32)
    sizes = {
        "attn_q": (shape.heads * head_width, shape.hidden),
        "attn_k": (shape.kv_heads * head_width, shape.hidden),
        "attn_v": (shape.kv_heads * head_width, shape.hidden),
        "attn_output": (shape.hidden, shape.heads * head_width),
        "ffn_gate": (shape.feed_forward, shape.hidden),
        "ffn_up": (shape.feed_forward, shape.hidden),
        "ffn_down": (shape.hidden, shape.feed_forward),
    }
    for layer in range(shape.layers):
        for name, (rows, columns) in sizes.items():
            yield f"blk.{layer}.{name}.weight", matrix(rows, columns)
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", np.ones(shape.hidden, np.float32)


def write_gguf(path: Path, shape: Shape, tokenizer: Any, seed: int) -> int:
    """Write the model and return its number of weights."""
    import gguf

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("random-llama")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_rope_dimension_count(shape.hidden // shape.heads)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    write_vocabulary(writer, tokenizer)
    printable = [
        index >= len(SPECIAL) and bool(text := tokenizer.decode([index])) and text.isascii() and text.isprintable()
        for index in range(shape.vocabulary)
    ]
    weights = 0
    for name, tensor in tensors(shape, printable, seed):
        weights += tensor.size
        if tensor.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def write_vocabulary(writer: Any, tokenizer: Any) -> None:
    """The tokenizer and the chat template, as llama.cpp reads them."""
    by_index = sorted((index, text) for text, index in tokenizer.get_vocab().items())
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([text.encode() for _, text in by_index])
    writer.add_token_types([3 if text in SPECIAL else 1 for _, text in by_index])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_pad_token_id(SPECIAL.index("<|pad|>"))
    writer.add_bos_token_id(SPECIAL.index("<|bos|>"))
    writer.add_eos_token_id(SPECIAL.index("<|eos|>"))
    writer.add_eot_token_id(SPECIAL.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def make(preset: str, out: Path, seed: int = 1) -> str:
    """Write `out/model.gguf` and `out/words.txt`; returns a line that says what was made."""
    began = time.perf_counter()
    shape = PRESETS[preset]
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer(shape.vocabulary)
    words = one_token_words(tokenizer)
    weights = write_gguf(out / "model.part", shape, tokenizer, seed)
    (out / "words.txt").write_text("\n".join(words) + "\n", encoding="ascii")
    (out / "model.part").replace(out / "model.gguf")  # last, so that a half-made folder is never taken for a model
    return f"{preset}: {weights / 1e6:.1f} M weights, {len(words)} words, {time.perf_counter() - began:.1f} s, {out}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a Llama model of random weights.")
    parser.add_argument("--preset", choices=sorted(PRESETS), default="small")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(make(arguments.preset, arguments.out, arguments.seed))


if __name__ == "__main__":
    main()
