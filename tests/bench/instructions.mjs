// Counts the machine instructions of the SIMD128 kernels, as compiled by V8 and, with `--jsc`, JavaScriptCore, and compares them with the
// minimum that the instruction set needs.
//
//   make -f emscripten.mk bench-token
//   node_modules/.bin/node tests/bench/instructions.mjs [--types bq4h_32,bq8_32] [--jsc FILE]
//
// FILE is JavaScriptCore's shell (Debian: libjavascriptcoregtk-4.0-bin); LD_LIBRARY_PATH may have to name the folder of its library.
// For each kernel it counts the innermost loops with products; in V8's output the first one is that of single tokens. A dot
// (i32x4.dot_i16x8_s, pmaddwd) has 8 products. It prints per 32 products: dots, additions of integers, unpacking and widening of weights,
// float operations, moves (loads, broadcasts, stores, spills, copies), the rest, and the sum; then the minimum for 32 products (MINIMUM),
// without the float operations of each block and the loads of activations, which many products share.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { ROOT } from '../../tools/setup/setup.mjs';

const { values } = parseArgs({
  options: { types: { type: 'string', default: 'bq4h_32,bq8_32' }, jsc: { type: 'string' } },
});

/** Numbers of types (c/core/type.h). @type {Record<string, number>} */
const TYPES = { bq4_32: 4, bq4h_32: 6, bq4a_32: 7, bq8_32: 8 };
/** Minimum per 32 products: 4 dots and 4 additions; 4 bits: one load of 16 bytes and a mask or a shift for each of four vectors of 16-bit integers; 8 bits: four loads that widen. @type {Record<string, number>} */
const MINIMUM = { bq4_32: 8 + 1 + 4, bq4h_32: 8 + 1 + 4, bq4a_32: 8 + 1 + 4, bq8_32: 8 + 4 };

const KINDS = /** @type {const} */ (['dots', 'adds', 'unpack', 'floats', 'moves', 'rest']);
/** Returns the kind of an instruction. @param {string} op @returns {(typeof KINDS)[number]} */
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

/** @typedef {{ at: bigint, op: string, to: bigint | null }} Instruction  `to`: target of a jump */

/** Returns the functions in the output of an engine by name. @param {string} text @param {RegExp} begins @param {RegExp} line @returns {Map<string, Instruction[]>} */
function parseFunctions(text, begins, line) {
  /** @type {Map<string, Instruction[]>} */
  const all = new Map();
  /** @type {Instruction[]} */
  let instructions = [];
  for (const row of text.split('\n')) {
    const name = begins.exec(row)?.groups?.name;
    if (name) {
      instructions = [];
      if (!all.has(name)) all.set(name, instructions);
    }
    const found = line.exec(row)?.groups;
    if (found)
      instructions.push({
        at: BigInt(found.at),
        op: found.op,
        to: /^j/.test(found.op) && /^0x/.test(found.rest) ? BigInt(found.rest.split(/\s/)[0]) : null,
      });
  }
  return all;
}

/** Returns the innermost loops with products. @param {Instruction[]} code */
function findInnerLoops(code) {
  const all = code
    .filter(({ at, to }) => to !== null && to <= at && to >= code[0].at)
    .map(({ at, to }) =>
      code.filter((instruction) => instruction.at >= /** @type {bigint} */ (to) && instruction.at <= at),
    )
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
function readMachineCode(type) {
  const module = JSON.stringify(join(ROOT, 'build/bench/token-simd128.wasm'));
  const folder = mkdtempSync(join(tmpdir(), 'bq4-code-'));
  const runProgram = (
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
    return stdout + stderr; // V8 writes to stdout, JavaScriptCore to stderr
  };
  try {
    /** @type {[string, Map<string, Instruction[]>][]} */
    const all = [
      [
        `V8 ${process.versions.v8}`,
        parseFunctions(
          runProgram(
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
        parseFunctions(
          // The first compilation with this name is that of the whole function; compilations that enter a loop have another name.
          runProgram(values.jsc, ['-s'], `read(${module}, 'binary')`, 5000, { JSC_dumpOMGDisassembly: '1' }),
          /^Generated OMG code for WebAssembly (?:OMG function(?=\[).*wasm-function\[(?<name>\w+)\]|.*)/,
          /^asm +(?<at>0x[0-9a-f]+): (?<op>[a-z][a-z0-9]*) ?(?<rest>.*)$/,
        ),
      ]);
    return all;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const columns = [...KINDS, 'sum', 'minimum'];
console.log(
  `| kernel | engine | loop, dots | ${columns.join(' | ')} |\n|---|---|---|${columns.map(() => '---|').join('')}`,
);
for (const type of values.types.split(','))
  for (const [engine, code] of readMachineCode(type)) {
    const found = findInnerLoops(code.get(`matmul_${type}`) ?? []);
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
