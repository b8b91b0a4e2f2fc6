// Updates the checksums in the header of a .bq4 file of version 2 after a change of the header.
import { xxh64 } from './xxh64.mjs';

/** @param {Uint8Array} file  changed in place @returns {Uint8Array} the file */
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
