/**
 * Recognizes rerankers that are decoders (Qwen3-Reranker): whether a document fits a query is how likely "yes" is, against "no", after a
 * prompt with both. Of the LM head the rows of these two tokens remain, as a classifier.
 */
import { pick } from '../format/bq4/tensor-views.js';
import { BqError } from '../shared/errors.js';
import { readJson, readText } from './folder.js';

/** @import { Folder } from './folder.js' */
/** @import { InTensor } from '../format/checkpoint-tensors.js' */
/** @import { ModelMeta } from '../format/meta.js' */

/** The prompt that Qwen3-Reranker was trained with, with the instruction of its model card. */
const TEMPLATE =
  '<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. ' +
  'Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n' +
  '<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n' +
  '<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n';

/** Whether the name or the model card says so: the checkpoint looks as any Qwen 3. @param {Folder} folder @param {Record<string, any>} hf @param {string} name */
async function isReranker(folder, hf, name) {
  if (hf.model_type !== 'qwen3' || !/ForCausalLM$/.test(String(hf.architectures?.[0]))) return false;
  if (/qwen3-reranker/i.test(name)) return true;
  return folder.has('README.md') && /^# qwen3-reranker/im.test(await readText(folder, 'README.md'));
}

/**
 * What makes a reranker of a checkpoint; null: the checkpoint is not a reranker. FORMAT: its tokenizer lacks a token of the answer.
 * @param {Folder} folder @param {Record<string, any>} hf  config.json @param {string} name
 * @returns {Promise<{ config: Record<string, any>, meta: ModelMeta, change: (tensors: Map<string, InTensor>, tied: boolean) => void } | null>}
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
