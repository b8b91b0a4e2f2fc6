/**
 * Types of the public interface, by area. These modules have no code, so this one is only imported for types:
 * `import('./types.js').Model`.
 */
export * from './types/engine.js';
export * from './types/storage.js';
export * from './types/load.js';
export * from './types/model.js';
export * from './types/embedding.js';
export * from './types/generation.js';
export * from './types/session.js';
export * from './types/chat.js';
export * from './types/openai.js';
