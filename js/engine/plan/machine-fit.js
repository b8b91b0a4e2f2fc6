/** Compares the memory that a plan needs with the memory of this machine. Loaded for plans of more than 256 MB. */
import { isNode, nodeModule } from '../../shared/node.js';
import { megabytes } from './memory-limit.js';

/** Returns the memory of this machine in bytes, as reported by Node or the browser; 0 if it is not reported. */
async function machineBytes() {
  if (isNode) return (await nodeModule('os')).totalmem();
  const { deviceMemory = 0 } = /** @type {any} */ (globalThis.navigator ?? {});
  return deviceMemory * 2 ** 30;
}

/**
 * Estimates from the machine's memory whether a heap fits, and returns the reason.
 * @param {number} heap  bytes
 * @returns {Promise<[fits: 'yes' | 'no' | 'unknown', reason: string]>}
 */
export async function estimateFit(heap) {
  const machine = await machineBytes();
  if (!machine)
    return ['unknown', `the browser does not report the memory of this machine; ${megabytes(heap)} are needed`];
  if (heap <= machine / 4)
    return ['yes', `${megabytes(heap)} are at most a quarter of this machine's ${megabytes(machine)}`];
  // Browsers report at most 8 GiB, newer ones at most 32 GiB.
  if (heap > machine && machine < 8 * 2 ** 30)
    return ['no', `${megabytes(heap)} are needed, this machine has ${megabytes(machine)}`];
  return ['unknown', `${megabytes(heap)} are more than a quarter of this machine's ${megabytes(machine)}`];
}
