/** `score`, `rerank` and OpenAI's calls, built on `model.generate` and `model.embed`. Loaded with the first call. */
export { chat } from './chat-completions.js';
export { completions } from './text-completions.js';
export { embeddings } from './embeddings.js';
export { runTools } from './run-tools.js';
export { rerank, score } from '../score.js';
