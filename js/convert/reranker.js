/**
 * Recognizes rerankers that are decoders (Qwen3-Reranker). Their prompt contains the query and the document; the score
 * is the probability of the answer "yes" relative to "no". The conversion keeps only the rows of these two tokens of
 * the LM head, as a classifier.
 */
import { pick } from '../format/bq4/tensor-views.js';
import { BqError } from '../shared/errors.js';
import { readJson, readText } from './folder.js';

/** @import { Folder } from './folder.js' */
/** @import { InTensor } from '../format/checkpoint-tensors.js' */
/** @import { ModelMeta } from '../format/meta.js' */

/** The prompt with which Qwen3-Reranker was trained, with the instruction of its model card. */
const TEMPLATE =
  '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. ' +
  'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n' +
  '<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n' +
  '<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n';

/**
 * Whether a checkpoint is a reranker. It is recognized by its name or its model card, since its files are otherwise
 * like those of other Qwen 3 models.
 * @param {Folder} folder @param {Record<string, any>} hf  config.json @param {string} name  name of the model
 */
async function isReranker(folder, hf, name) {
  if (hf.model_type !== 'qwen3' || !/ForCausalLM$/.test(String(hf.architectures?.[0]))) return false;
  if (/qwen3-reranker/i.test(name)) return true;
  return folder.has('README.md') && /^# qwen3-reranker/im.test(await readText(folder, 'README.md'));
}

/**
 * Returns the changes that turn a checkpoint into a reranker: keys of the configuration, metadata, and a function that
 * changes the tensors. Null if the checkpoint is not a reranker. Throws FORMAT if its tokenizer lacks "yes" or "no".
 * @param {Folder} folder @param {Record<string, any>} hf  config.json @param {string} name  name of the model
 * @returns {Promise<{
 *   config: Record<string, any>, meta: ModelMeta, change: (tensors: Map<string, InTensor>, tied: boolean) => void
 * } | null>}
 */
export async function yesNoReranker(folder, hf, name) {
  if (!(await isReranker(folder, hf, name))) return null;
  const vocabulary = (await readJson(folder, 'tokenizer.json'))?.model?.vocab;
  const rows = ['yes', 'no'].map((token) => vocabulary?.[token]);
  if (!rows.every((row) => Number.isInteger(row) && row < hf.vocab_size))
    throw new BqError('FORMAT', `${folder.path} is a reranker whose tokenizer.json lacks the tokens "yes" and "no"`, {
      hint: 'fetch its tokenizer.json',
    });
  return {
    config: {
      dense2: rows.length,
      labels: true,
      pooling: 'last',
      normalize: false,
      no_head: true,
      tied: false,
    },
    meta: { labels: ['yes', 'no'], pair: { template: TEMPLATE } },
    change(tensors, tied) {
      const head = tensors.get(tied ? 'wte.weight' : 'lm_head.weight');
      if (head) tensors.set('pooled.dense2.weight', pick(head, rows));
      tensors.delete('lm_head.weight');
    },
  };
}
