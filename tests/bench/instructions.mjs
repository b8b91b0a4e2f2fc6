// How near are SIMD128's kernels to what that instruction set asks for? The machine code that V8 and, where its shell is, JavaScriptCore make of
// them, counted.
//
//   make -f emscripten.mk bench-token
//   node_modules/.bin/node tests/bench/instructions.mjs [--types bq4h_32,bq8_32] [--jsc FILE]
//
// FILE is JavaScriptCore's shell, which Debian has in libjavascriptcoregtk-4.0-bin; LD_LIBRARY_PATH may have to name its library's folder.
// Of each kernel, the loops that multiply and have no other within: the first is that of one token in V8's output, where engines keep the
// order of the source. A dot (i32x4.dot_i16x8_s, pmaddwd) has 8 products. Printed per 32 products: dots, adds (of integers), what unpacks and
// widens weights, floats, what only moves (loads, broadcasts, stores, spills, copies), the rest; then all of them, and beside it the least that 32
// products need (LEAST), the floats of each block and the loads of activations aside, which many products share.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from '../../tools/setup/setup.mjs';

const { values } = parseArgs({
  options: { types: { type: 'string', default: 'bq4h_32,bq8_32' }, jsc: { type: 'string' } },
});

/** Ids of types (c/core/type.h). @type {Record<string, number>} */
const TYPES = { bq4_32: 4, bq4h_32: 6, bq4a_32: 7, bq8_32: 8 };
/** 4 dots and 4 adds; 16 bytes of nibbles are loaded and make four vectors of 16 bits by a mask or a shift each; 32 bytes are widened as they are loaded. @type {Record<string, number>} */
const MINIMUM = { bq4_32: 8 + 1 + 4, bq4h_32: 8 + 1 + 4, bq4a_32: 8 + 1 + 4, bq8_32: 8 + 4 };

const KINDS = /** @type {const} */ (['dots', 'adds', 'unpack', 'floats', 'moves', 'rest']);
/** @param {string} op @returns {(typeof KINDS)[number]} */
function kindOf(op) {
  const name = op.replace(/^v(?=p|mov|add|sub|mul|cvt|broad|shuf|unpck|and|xor)/, '');
  if (name === 'pmaddwd') return 'dots';
  if (/^padd|^psub/.test(name)) return 'adds';
  if (
    /^(pand|por|pxor|andn?p|orp|xorp|psr|psl|pmovsx|pmovzx|punpck|palignr|pshuf|packs|pack|pmull|unpck|pabs|pcmp)/.test(
      name,
    )
  )
    return 'unpack';
  if (/^mov|^push|^pop|^lea|broadcast|^pinsr/.test(name)) return 'moves';
  if (/^(add|sub|mul|cvt|unpckl).*(ps|pd|ss|dq2ps)$|^cvt/.test(name)) return 'floats';
  return 'rest';
}

/** @typedef {{ at: bigint, op: string, to: bigint | null }} Instruction  `to`: where it jumps */

/** The functions of an engine's output. @param {string} text @param {RegExp} begins @param {RegExp} line @returns {Map<string, Instruction[]>} */
function functionsIn(text, begins, line) {
  /** @type {Map<string, Instruction[]>} */
  const all = new Map();
  /** @type {Instruction[]} */
  let now = [];
  for (const each of text.split('\n')) {
    const name = begins.exec(each)?.groups?.name;
    if (name) {
      now = [];
      if (!all.has(name)) all.set(name, now);
    }
    const found = line.exec(each)?.groups;
    if (found)
      now.push({
        at: BigInt(found.at),
        op: found.op,
        to: /^j/.test(found.op) && /^0x/.test(found.rest) ? BigInt(found.rest.split(/\s/)[0]) : null,
      });
  }
  return all;
}

/** Loops that multiply and have none within. @param {Instruction[]} code */
function loops(code) {
  const all = code
    .filter(({ at, to }) => to !== null && to <= at && to >= code[0].at)
    .map(({ at, to }) => code.filter((one) => one.at >= /** @type {bigint} */ (to) && one.at <= at))
    .filter((body) => body.some(({ op }) => /pmaddwd$/.test(op)));
  return all.filter(
    (body) =>
      !all.some(
        (other) =>
          other !== body &&
          other.length < body.length &&
          body[0].at <= other[0].at &&
          other[other.length - 1].at <= body[body.length - 1].at,
      ),
  );
}

const PROGRAM = `
const memory = new WebAssembly.Memory({ initial: 64, maximum: 65536 });
const token = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory } }).exports;
const dims = [1, 256, 64, 512, 512, TYPE, TYPE];
const at = Math.ceil(token.__heap_base.value / 64) * 64;
memory.grow(Math.ceil((at + token.token_bytes(...dims) + 4096) / 65536));
token.token_set_up(...dims, at, 0);
for (let i = 0; i < TIMES; i++) token.token_multiply(1);
`;

/** @param {string} type @returns {[engine: string, code: Map<string, Instruction[]>][]} */
function machineCode(type) {
  const module = JSON.stringify(join(ROOT, 'build/bench/token-simd128.wasm'));
  const folder = mkdtempSync(join(tmpdir(), 'bq4-code-'));
  const say = (
    /** @type {string} */ program,
    /** @type {string[]} */ args,
    /** @type {string} */ bytes,
    /** @type {number} */ times,
    env = {},
  ) => {
    const file = join(folder, 'run.js');
    writeFileSync(
      file,
      `const bytes = ${bytes};${PROGRAM.replaceAll('TYPE', String(TYPES[type])).replace('TIMES', String(times))}`,
    );
    const { stdout, stderr } = spawnSync(program, [...args, file], {
      encoding: 'utf8',
      maxBuffer: 1 << 28,
      env: { ...process.env, ...env },
    });
    return stdout + stderr; // V8 writes to the first, JavaScriptCore to the second
  };
  try {
    /** @type {[string, Map<string, Instruction[]>][]} */
    const all = [
      [
        `V8 ${process.versions.v8}`,
        functionsIn(
          say(
            process.execPath,
            ['--no-liftoff', '--no-wasm-lazy-compilation', '--print-wasm-code'],
            `require('node:fs').readFileSync(${module})`,
            1,
          ),
          /^name: (?<name>\S+)/,
          /^(?<at>0x[0-9a-f]+) +[0-9a-f]+ +[0-9a-f]+ +(?:REX\.W )?(?<op>[a-z][a-z0-9]*) ?(?<rest>.*)$/,
        ),
      ],
    ];
    if (values.jsc)
      all.push([
        'JavaScriptCore',
        functionsIn(
          // The first compilation that counts is that of the whole function; those that enter a loop come under another name.
          say(values.jsc, ['-s'], `read(${module}, 'binary')`, 5000, { JSC_dumpOMGDisassembly: '1' }),
          /^Generated OMG code for WebAssembly (?:OMG function(?=\[).*wasm-function\[(?<name>\w+)\]|.*)/,
          /^asm +(?<at>0x[0-9a-f]+): (?<op>[a-z][a-z0-9]*) ?(?<rest>.*)$/,
        ),
      ]);
    return all;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const columns = [...KINDS, 'all', 'least'];
console.log(
  `| kernel | engine | loop, dots | ${columns.join(' | ')} |\n|---|---|---|${columns.map(() => '---|').join('')}`,
);
for (const type of values.types.split(','))
  for (const [engine, code] of machineCode(type)) {
    const found = loops(code.get(`matmul_${type}`) ?? []);
    if (!found.length) console.log(`| ${type} | ${engine} | none found |`);
    for (const [i, body] of found.entries()) {
      const dots = body.filter(({ op }) => kindOf(op) === 'dots').length;
      const per = (/** @type {number} */ n) => ((n * 4) / dots).toFixed(1);
      const counts = KINDS.map((kind) => per(body.filter(({ op }) => kindOf(op) === kind).length));
      console.log(
        `| ${type} | ${engine} | ${i + 1}, ${dots} | ${counts.join(' | ')} | ${per(body.length)} | ${i ? '' : MINIMUM[type]} |`,
      );
    }
  }
