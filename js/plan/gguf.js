/** GGUF files: their header is read in js/gguf, and told to the engine as a manifest. */
import { openGguf } from '../gguf/open.js';
import { encodeManifest } from './manifest.js';

/** @import { ByteSource } from '../sources/types.js' */

/**
 * @param {ByteSource} file
 * @param {Uint8Array} head  its first bytes
 * @param {AbortSignal} [signal]
 */
export async function ggufManifest(file, head, signal) {
  const { header, ...description } = await openGguf(file, head, signal);
  return { manifest: encodeManifest(description), head: header.read };
}
