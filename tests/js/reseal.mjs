// Makes the checksums of a v2 file's header and prefix right again after it was changed.
import { xxh64 } from './xxh64.mjs';

/** @param {Uint8Array} file */
export function reseal(file) {
  const view = new DataView(file.buffer, file.byteOffset);
  view.setBigUint64(56, xxh64(file.subarray(0, 56)), true);
  const prefix = Number(view.getBigUint64(24, true));
  const plan = 64 + Number(view.getBigUint64(16, true)) - 24;
  view.setBigUint64(plan + 16, xxh64(file.subarray(64, plan)), true);
  const sum = Buffer.from(file.buffer, file.byteOffset, prefix).lastIndexOf('SUM8');
  view.setBigUint64(sum + 16, xxh64(file.subarray(0, sum)), true);
  return file;
}
