"""Compares the replies of chats.mjs with greedy replies in f32: the model's own template rendered by jinja2, tokens of
tokenizers, weights as in reference.py. Writes a table of all replies and prints the numbers of equal ones. Run by hand:
    python tools/quality/chats.py MODEL.gguf chats.json build/chats.md
It needs torch, transformers, gguf and jinja2."""
import json
import sys

import gguf
import jinja2
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from reference import load

# Number of tokens at the start of two replies that are compared.
COMPARED_TOKENS = 20


def tokenizer_of(fields):
    """Returns GPT-2's tokenizer, with single digits, for the tokens and merges of a GGUF file."""
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents()
    if get("pre") != "smollm":
        raise SystemExit(f'expected the pre-tokenizer "smollm", found "{get("pre")}"')
    texts = get("tokens")
    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate(texts)}, [tuple(m.split(" ")) for m in get("merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text, kind in zip(texts, get("token_type")) if kind == 3])
    return tokenizer


@torch.no_grad()
def generate_greedily(model, prompt, count, end_tokens):
    """Returns at most `count` tokens. The last one can be an end token."""
    out = model(torch.tensor([prompt]), use_cache=True)
    ids = []
    while len(ids) < count:
        ids.append(int(out.logits[0, -1].argmax()))
        if ids[-1] in end_tokens:
            break
        out = model(torch.tensor([ids[-1:]]), past_key_values=out.past_key_values, use_cache=True)
    return ids


def common_prefix_length(tokens, reference):
    """Returns the number of equal tokens before the first difference."""
    return next((i for i, (a, b) in enumerate(zip(tokens, reference)) if a != b), min(len(tokens), len(reference)))


def main(path, chats_path, table_path):
    torch.set_num_threads(1)
    fields = gguf.GGUFReader(path).fields
    template = jinja2.Environment().from_string(fields["tokenizer.chat_template"].contents())
    tokenizer = tokenizer_of(fields)
    end_tokens = {fields["tokenizer.ggml.eos_token_id"].contents()}
    model = load(path)
    chats = json.load(open(chats_path))
    rows = ["| question | bq4 | f32 | equal tokens |", "|---|---|---|---|"]
    equal_starts = equal_replies = 0
    for chat in chats["chats"]:
        text = template.render(messages=[{"role": "user", "content": chat["question"]}], add_generation_prompt=True)
        prompt = tokenizer.encode(text, add_special_tokens=False).ids
        if len(prompt) != chat["promptTokens"]:
            raise SystemExit(f'{chat["question"]}: expected a prompt of {chat["promptTokens"]} tokens, as in bq4, found {len(prompt)}')
        reference = [i for i in generate_greedily(model, prompt, chats["tokens"], end_tokens) if i not in end_tokens]
        tokens = [i for i in chat["ids"] if i not in end_tokens]
        equal = common_prefix_length(tokens, reference)
        equal_starts += tokens[:COMPARED_TOKENS] == reference[:COMPARED_TOKENS]
        equal_replies += tokens == reference
        format_cell = lambda text: " ".join(text.split()).replace("|", "\\|")
        rows.append(f'| {chat["question"]} | {format_cell(chat["text"])} | {format_cell(tokenizer.decode(reference))} | {equal} of {len(reference)} |')
        print(rows[-1], flush=True)
    summary = (f"{equal_starts} of {len(chats['chats'])} replies have the same first {COMPARED_TOKENS} tokens, {equal_replies} are equal "
               f"(at most {chats['tokens']} tokens)")
    open(table_path, "w").write("\n".join([*rows, "", summary, ""]))
    print(summary)


main(*sys.argv[1:])
