/** `score` and `rerank`, and calls in OpenAI's shapes, made of `model.generate` and `model.embed`. Loaded when first asked for. */
export { chat } from './chat-completions.js';
export { completions } from './text-completions.js';
export { embeddings } from './embeddings.js';
export { runTools } from './run-tools.js';
export { rerank, score } from '../score.js';
