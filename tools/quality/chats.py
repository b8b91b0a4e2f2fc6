"""The replies of chats.mjs beside those of the mathematics in f32: the model's own template by jinja2, its tokens by
transformers, its weights as in reference.py, greedy. Writes a table for people to read, and counts. Run by hand:
    python tools/quality/chats.py MODEL.gguf chats.json build/chats.md
Needs torch, transformers, gguf and jinja2."""
import json
import sys

import gguf
import jinja2
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from reference import load

COMPARED = 20


def tokenizer_of(fields):
    """GPT-2's tokenizer with each digit by itself, of the GGUF file's tokens and merges."""
    get = lambda key: fields[f"tokenizer.ggml.{key}"].contents()
    if get("pre") != "smollm":
        raise SystemExit(f'its texts are cut as "{get("pre")}": only "smollm" is known here')
    texts = get("tokens")
    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate(texts)}, [tuple(m.split(" ")) for m in get("merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text, kind in zip(texts, get("token_type")) if kind == 3])
    return tokenizer


@torch.no_grad()
def greedy(model, prompt, count, ends):
    out = model(torch.tensor([prompt]), use_cache=True)
    ids = []
    while len(ids) < count:
        ids.append(int(out.logits[0, -1].argmax()))
        if ids[-1] in ends:
            break
        out = model(torch.tensor([ids[-1:]]), past_key_values=out.past_key_values, use_cache=True)
    return ids


def lead(ours, theirs):
    """Tokens that are equal from the first on."""
    return next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))


def main(path, chats, table):
    torch.set_num_threads(1)
    fields = gguf.GGUFReader(path).fields
    template = jinja2.Environment().from_string(fields["tokenizer.chat_template"].contents())
    tokenizer = tokenizer_of(fields)
    ends = {fields["tokenizer.ggml.eos_token_id"].contents()}
    model = load(path)
    given = json.load(open(chats))
    rows = ["| question | ours | f32 | equal tokens |", "|---|---|---|---|"]
    same = whole = 0
    for chat in given["chats"]:
        text = template.render(messages=[{"role": "user", "content": chat["question"]}], add_generation_prompt=True)
        prompt = tokenizer.encode(text, add_special_tokens=False).ids
        if len(prompt) != chat["promptTokens"]:
            raise SystemExit(f'{chat["question"]}: the prompt has {chat["promptTokens"]} tokens here, {len(prompt)} there')
        theirs = [i for i in greedy(model, prompt, given["tokens"], ends) if i not in ends]
        ours = [i for i in chat["ids"] if i not in ends]
        equal = lead(ours, theirs)
        finished = ours[:COMPARED] == theirs[:COMPARED]
        same += finished
        whole += ours == theirs
        cell = lambda text: " ".join(text.split()).replace("|", "\\|")
        rows.append(f'| {chat["question"]} | {cell(chat["text"])} | {cell(tokenizer.decode(theirs))} | {equal} of {len(theirs)} |')
        print(rows[-1], flush=True)
    told = f"{same} of {len(given['chats'])} replies have the same first {COMPARED} tokens, {whole} are the same to their end (at most {given['tokens']} tokens)"
    open(table, "w").write("\n".join([*rows, "", told, ""]))
    print(told)


main(*sys.argv[1:])
