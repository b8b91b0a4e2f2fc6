// Properties of the machine on which figures are measured.
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, platform, arch, release, totalmem } from 'node:os';

/** @typedef {{ cpu: string, cores: number, memoryGB: number, os: string, flags: string[], node: string }} Machine */

/** CPU flags that affect the speed of matrix products. */
const SPEED_FLAGS =
  /^(avx2|avx512(f|bw|vl|_vnni|_bf16|_fp16)|avx_vnni|amx_(int8|bf16|tile)|fma|f16c|sse4_1|ssse3|asimddp|i8mm|sve2?|asimd)$/;

/** Returns the properties of this machine. @returns {Machine} */
export function readMachine() {
  let text = '';
  try {
    text = readFileSync('/proc/cpuinfo', 'utf8');
  } catch {
    // Only Linux has this file.
  }
  const flags = /^(?:flags|Features)\s*:\s*(.*)$/m.exec(text)?.[1].split(' ') ?? [];
  const field = (/** @type {string} */ name) => new RegExp(`^${name}\\s*:\\s*(.*)$`, 'm').exec(text)?.[1];
  const model = field('model') ? ` (family ${field('cpu family')}, model ${field('model')})` : '';
  return {
    cpu: `${cpus()[0]?.model ?? arch()}${model}`,
    cores: availableParallelism(),
    memoryGB: Math.round(totalmem() / 2 ** 30),
    os: `${platform()} ${release()}`,
    flags: flags.filter((flag) => SPEED_FLAGS.test(flag)),
    node: process.version,
  };
}

/** Returns the machine instruction to which V8 compiles the relaxed integer dot product. @param {Machine} machine */
export function dotInstruction({ flags }) {
  const has = (/** @type {string} */ flag) => flags.includes(flag);
  if (has('avx_vnni')) return 'vpdpbusd (AVX-VNNI), 128 bits wide';
  if (has('asimddp')) return 'sdot (Arm dot product), 128 bits wide';
  if (has('ssse3')) return 'pmaddubsw, pmaddwd, paddd, 128 bits wide';
  return 'unknown';
}

/**
 * Returns the module with relaxed SIMD whose dot product needs fewer instructions. The engine's measurement chooses the same module.
 * @param {Machine} machine @param {string} [browser]
 * @returns {'relaxed' | 'relaxed16'}
 */
export const relaxedModule = (machine, browser = 'chromium') =>
  /pmaddubsw/.test(browser === 'firefox' ? dotInFirefox(machine) : dotInstruction(machine)) ? 'relaxed16' : 'relaxed';

/** Returns the instructions to which SpiderMonkey compiles the relaxed dot product: on x86 always more than one. @param {Machine} machine */
export const dotInFirefox = (machine) =>
  dotInstruction(machine.flags.includes('ssse3') ? { ...machine, flags: ['ssse3'] } : machine);

/** Returns counters of this virtual machine's CPU time, or null if the system has none. @returns {{ stolen: number, idle: number, all: number } | null} */
export function readCpuTimes() {
  try {
    const counters = /^cpu +(.*)$/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1].split(' ').map(Number) ?? [];
    return {
      stolen: counters[7] ?? 0,
      idle: (counters[3] ?? 0) + (counters[4] ?? 0),
      all: counters.slice(0, 8).reduce((sum, part) => sum + part, 0),
    };
  } catch {
    return null;
  }
}

/** Returns the share of CPU time used by other virtual machines on the same host. @param {ReturnType<typeof readCpuTimes>} before @param {ReturnType<typeof readCpuTimes>} after */
export const stolenShare = (before, after) =>
  before && after && after.all > before.all ? (after.stolen - before.stolen) / (after.all - before.all) : null;

/** Returns the share of CPU time used by all programs. @param {ReturnType<typeof readCpuTimes>} before @param {ReturnType<typeof readCpuTimes>} after */
export const busyShare = (before, after) =>
  before && after && after.all > before.all ? 1 - (after.idle - before.idle) / (after.all - before.all) : null;
