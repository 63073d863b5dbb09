"""llama.cpp's own server, as the wheels of xllamacpp have it, on a file of weights; one that is not there is made, of random
ones. Prints its URL, then serves until its input ends. See llama_cpp.sh."""

import pathlib
import sys

import gguf
import numpy as np
import xllamacpp

WIDTH, LAYERS, INNER, WINDOW = 64, 2, 128, 131072
TEMPLATE = ("{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def write_model(path):
    """A model of the right shape that knows nothing: one token a byte, and always the same random weights."""
    random = np.random.default_rng(7)
    tokens = [b"<unk>", b"<s>", b"</s>"] + [f"<0x{byte:02X}>".encode() for byte in range(256)]
    tokens += [bytes([byte]) for byte in range(33, 127)] + ["\u2581".encode()]
    kinds = [gguf.TokenType.UNKNOWN] + [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * 256
    kinds += [gguf.TokenType.NORMAL] * (len(tokens) - len(kinds))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(WINDOW)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // 4)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(at) for at in range(len(tokens))])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template(TEMPLATE)

    def weights(*shape):
        return (random.standard_normal(shape) * 0.2).astype(np.float32)

    output = weights(len(tokens), WIDTH)
    output[:259] = 0.0  # what it says is printable
    writer.add_tensor("token_embd.weight", weights(len(tokens), WIDTH))
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    writer.add_tensor("output.weight", output)
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(WIDTH, np.float32))
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            writer.add_tensor(f"blk.{layer}.{part}.weight", weights(WIDTH, WIDTH))
        for part in ("ffn_gate", "ffn_up"):
            writer.add_tensor(f"blk.{layer}.{part}.weight", weights(INNER, WIDTH))
        writer.add_tensor(f"blk.{layer}.ffn_down.weight", weights(WIDTH, INNER))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    path, port, window, key = sys.argv[1:]
    if not pathlib.Path(path).exists():
        write_model(path)
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = path, int(window), 1
    params.hostnames, params.port, params.api_keys = ["127.0.0.1"], int(port), [key]
    params.use_jinja, params.warmup = True, False
    # More than one would wait for each other on a busy machine, and there is next to nothing to compute.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
