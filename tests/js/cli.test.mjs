// The command line as separate processes.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { COMMANDS } from '../../bin/commands/index.js';
import { createEngine, fromBytes } from '../../js/node.js';
import { examples } from './api-doc.mjs';
import { CHAT, tinyModel, tokenizer } from './fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { until } from '../waiting.mjs';

const program = fileURLToPath(new URL('../../bin/bq4.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'bq4-cli-'));
const path = join(folder, 'tiny.bq4');
/** @type {Uint8Array} */
let file;
before(async () => {
  file = await tinyModel({ type: 'bq4' });
  writeFileSync(path, file);
});
after(() => rmSync(folder, { recursive: true }));

/** @param {string[]} args */
const bq4 = (...args) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
};

test('--help, also of each command, and --version; docs/reference/cli.md lists each option', () => {
  const names = Object.keys(COMMANDS);
  assert.ok(
    names.length > 12 && ['convert', 'prompt-cache', 'serve'].every((name) => names.includes(name)),
    `${names}`,
  );
  for (const args of [['--help'], ['-h'], ...names.map((name) => [name, '--help'])]) {
    const { status, stdout } = bq4(...args);
    assert.equal(status, 0, args.join(' '));
    const lines = args.length > 1 ? [args[0]] : names;
    for (const name of names)
      assert.equal(new RegExp(`^  bq4 ${name} `, 'm').test(stdout), lines.includes(name), `${args}: ${name}`);
  }
  const listed =
    examples
      .get('Command line')
      ?.map(({ code }) => code)
      .join('') ?? '';
  assert.deepEqual(
    names.filter((name) => !new RegExp(`^npx bq4 ${name} `, 'm').test(listed)),
    [],
  );
  assert.match(bq4('--version').stdout, /^\d+\.\d+\.\d+(-[\w.]+)?\n$/);
});

test('a failed write to a full device is reported', { skip: !existsSync('/dev/full') && 'no /dev/full' }, () => {
  const full = openSync('/dev/full', 'w');
  for (const args of [['--help'], ['run', path, '--prompt', 'Once', '--max-tokens', '3']]) {
    const { status, stderr } = spawnSync(process.execPath, [program, ...args], {
      encoding: 'utf8',
      stdio: ['ignore', full, 'pipe'],
    });
    assert.equal(status, 1, args[0]);
    assert.match(stderr, /^bq4: ENOSPC: .*\n {5}check the path, its permissions and the free space\n$/);
  }
  closeSync(full);
});

test('wrong usage ends with exit code 2 and names the mistake', () => {
  /** @type {[string[], RegExp][]} */
  const wrong = [
    [[], /expected a command/],
    [['frob'], /unknown command "frob"\n/],
    [['inspct', path], /unknown command "inspct"; did you mean inspect\?/],
    [
      ['run', path, '--prompt', 'a', '--prompt', 'b'],
      /run: --prompt is given twice: expected one value, found "a" and "b"/,
    ],
    [['run', path, 'x', '--json', '--seed', '1', '--seed=2'], /run: --seed is given twice/],
    [['run', path, 'x', '--max-tokens', '-1'], /run: expected a value after --max-tokens, found -1/],
    [['run', path, 'x', '--max-tokens'], /run: expected a value after --max-tokens/],
    [['run', path, 'x', '--json=yes'], /run: --json takes no value, found "yes"/],
    [['serve', path, '--port', 'abc'], /--port: expected an integer from 0 to 65535, found "abc"/],
    [['run', path], /--prompt/],
    [['run'], /run: expected FILE \[PROMPT\], found 0 arguments/],
    [['run', path, '--prompt', 'x', '--frob'], /--frob/],
    [['run', path, '--prompt', 'x', '--max-tokens', 'many'], /--max-tokens: expected .* found "many"/],
    [['run', path, '--prompt', 'x', '--kv', 'q1'], /--kv/],
    [['run', path, '--prompt', 'x', '--regex', 'a', '--schema', 'b'], /exclude each other/],
    [['run', path, 'x', '--system', 'y'], /--system needs --chat/],
    ...['', 'a', '1,', ',1', '1.5', '1 2'].map(
      (list) =>
        /** @type {[string[], RegExp]} */ ([
          ['run', path, 'x', `--skip-layers=${list}`],
          new RegExp(`--skip-layers: expected numbers of layers, such as 3,14, found "${list}"`),
        ]),
    ),
    [['convert', path], /convert: expected IN OUT, found 1 argument\n/],
  ];
  for (const [args, why] of wrong) {
    const { status, stderr, stdout } = bq4(...args);
    assert.equal(status, 2, args.join(' '));
    assert.match(stderr, why);
    assert.equal(stdout, '');
  }
});

test('an unknown option: the error names a similar one; --help of a command lists its options', () => {
  const { status, stderr } = bq4('run', path, '--maxtokens', '3');
  assert.equal(status, 2);
  assert.match(stderr, /run: unknown option --maxtokens; did you mean --max-tokens\?/);
  assert.match(bq4('run', path, 'x', '--max', '3').stderr, /unknown option --max; did you mean --max-tokens\?/);
  assert.match(bq4('run', path, 'x', '--qqq').stderr, /unknown option --qqq\n/);
  const help = bq4('serve', '--help').stdout;
  assert.match(help, /bq4 serve FILE/);
  assert.match(help, /--port N/);
  assert.doesNotMatch(help, /--calibrate|bq4 convert IN/);
  assert.equal(bq4('help', 'serve').stdout, help);
});

test('a folder in place of a file: the error names the command to convert it; a port in use is reported', async () => {
  for (const command of [
    ['run', folder, 'x'],
    ['embed', folder, 'x'],
    ['chat', folder],
    ['serve', folder],
  ]) {
    const { status, stderr } = bq4(...command);
    assert.equal(status, 1);
    assert.match(stderr, /is a folder, not a file\n +convert .* first: npx bq4 convert /);
  }
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (taken.address());
  const { status, stderr } = bq4('serve', path, '--port', String(port));
  taken.close();
  assert.equal(status, 1);
  assert.match(stderr, /the port is in use\n +choose another with --port/);
  const nowhere = bq4('serve', path, '--port', '0', '--host', '192.0.2.1');
  assert.equal(nowhere.status, 1);
  assert.match(nowhere.stderr, /192\.0\.2\.1.*\n +choose a name or an address of this machine with --host\n/);
});

test('bench: rates, memory and the load plan', () => {
  const { status, stdout, stderr } = bq4(
    'bench',
    path,
    '--json',
    '--prompt-tokens',
    '20',
    '--tokens',
    '5',
    '--runs',
    '1',
    '--context',
    '64',
    '--kv',
    'i4',
    '--threads',
    '1',
  );
  assert.equal(status, 0, stderr);
  const { promptTokens, prefill, memory, plan, threads } = JSON.parse(stdout);
  assert.deepEqual([promptTokens, plan.contextTokens, plan.kv, threads], [20, 64, 'i4', 1]);
  assert.ok(prefill > 0 && memory.total >= plan.heapBytes && memory.peak <= memory.heap);
  assert.match(bq4('bench', path, '--runs', '1', '--tokens', '2').stdout, /prefill .*tokens\/s[^]*decode .*tokens\/s/);
  assert.equal(bq4('bench', path, '--tokens', '0').status, 2);
});

test('run --schema, --grammar, --regex: the text matches', () => {
  const schema = join(folder, 'schema.json');
  const grammar = join(folder, 'list.gbnf');
  writeFileSync(schema, JSON.stringify({ type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] }));
  writeFileSync(grammar, 'root ::= ("- " [a-z]{1,9} "\\n"){2}');
  const run = (/** @type {string[]} */ ...args) =>
    bq4('run', path, '--prompt', 'x', '--max-tokens', '30', '--seed', '1', ...args);
  assert.equal(typeof JSON.parse(run('--schema', schema).stdout).n, 'number');
  assert.match(run('--grammar', grammar).stdout, /^(- [a-z]{1,9}\n){2}\n$/);
  assert.match(run('--regex', '[ab]{3}').stdout, /^[ab]{3}\n$/);
  writeFileSync(schema, '{"divisibleBy": 1}');
  const { status, stderr } = run('--schema', schema);
  assert.equal(status, 1);
  assert.match(stderr, /GRAMMAR: the keyword "divisibleBy" is not supported/);
  writeFileSync(schema, '{"type": "integer", "minimun": 1}');
  assert.match(run('--schema', schema).stderr, /"minimun" is not a keyword of JSON Schema: it was ignored/);
  assert.match(run('--schema', grammar).stderr, /is not valid JSON/);
  assert.match(run('--schema', join(folder, 'none.json')).stderr, /READ: .*\n +check the path and its permissions\n/);
});

test('run --draft: the same text, with draft tokens of another model', () => {
  const run = (/** @type {string[]} */ ...args) =>
    bq4('run', path, '--prompt', 'x', '--max-tokens', '20', '--seed', '1', '--json', ...args);
  const [plain, fast] = [run(), run('--draft', path)].map(({ stdout }) => JSON.parse(stdout));
  assert.deepEqual(fast.tokens, plain.tokens);
  assert.match(run('--draft', join(folder, 'none.bq4')).stderr, /READ: .*none\.bq4/);
});

test('failures: exit code 1, code and hint', () => {
  const { status, stderr } = bq4('run', join(folder, 'none.bq4'), '--prompt', 'x');
  assert.equal(status, 1);
  assert.match(stderr, /READ: .*none\.bq4/);
  writeFileSync(join(folder, 'page.bq4'), '<!doctype html>');
  assert.match(bq4('run', join(folder, 'page.bq4'), '--prompt', 'x').stderr, /NOT_A_MODEL/);
  assert.equal(bq4('run', path, '--prompt', 'x'.repeat(300)).status, 1);
  for (const [address, why] of /** @type {const} */ ([
    ['ftp://127.0.0.1/m.gguf', /ARGUMENT: expected a full address, found "ftp:/],
    ['HTTP://127.0.0.1:1/m.gguf', /NETWORK: http:\/\/127\.0\.0\.1:1\/m\.gguf: the server could not be reached/],
  ]))
    assert.match(bq4('run', address, 'x').stderr, why);
  const adapter = bq4('run', path, 'x', '--adapter', path);
  assert.match(adapter.stderr, /FORMAT: .*tiny\.bq4 is not a valid safetensors file/);
});

test('files of text are UTF-8, with or without a byte order mark; other bytes are refused', () => {
  const schema = join(folder, 'schema.json');
  writeFileSync(schema, '\ufeff{ "type": "boolean" }');
  const { status, stdout, stderr } = bq4('run', path, 'x', '--schema', schema);
  assert.equal(status, 0, stderr);
  assert.match(stdout, /^(true|false)\n$/);
  const text = join(folder, 'latin1.txt');
  writeFileSync(text, Buffer.from('Stra\xdfe', 'latin1'));
  const refused = bq4('perplexity', path, text);
  assert.equal(refused.status, 1);
  assert.match(
    refused.stderr,
    /READ: .*latin1\.txt: expected text in UTF-8, found other bytes\n +save the file as UTF-8/,
  );
});

test('a model of the hub: the error names the command to convert it', () => {
  for (const command of ['inspect', 'run', 'chat', 'embed', 'bench', 'serve']) {
    const { status, stderr } = bq4(command, 'hf:some/model', ...(command === 'embed' ? ['x'] : []));
    assert.equal(status, 2, command);
    assert.match(stderr, /needs a file: first bq4 convert hf:some\/model OUT\.bq4\n/);
  }
});

test('a pipe in place of a model is refused immediately, as a pipe', { skip: process.platform === 'win32' }, () => {
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  for (const args of [
    ['run', pipe, 'x'],
    ['inspect', pipe],
    ['convert', pipe, join(folder, 'of-pipe.bq4')],
  ]) {
    const { status, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8', timeout: 60_000 });
    assert.equal(status, 1, args[0]);
    assert.match(stderr, /^bq4: READ: .*pipe is not a regular file\n +copy it to a regular file/);
  }
});

test('output files are checked before anything is computed', () => {
  const [notes, image, text] = ['notes.txt', 'image.svg', 'text.txt'].map((name) => join(folder, name));
  writeFileSync(notes, 'kept');
  writeFileSync(text, 'Once upon a time.');
  mkdirSync(join(folder, 'taken'));
  const readOnly = join(folder, 'read-only.json');
  writeFileSync(readOnly, '', { mode: 0o444 });
  /** Commands without the file to write. @type {[string, string[]][]} */
  const commands = [
    ['--receipt', ['run', path, 'Once', '--max-tokens', '2', '--receipt']],
    ['--plot', ['quantize', path, join(folder, 'out.bq4'), '--calibrate', text, '--plot']],
    ['convert', ['convert', path]],
    ['quantize', ['quantize', path]],
    ['bundle', ['bundle', path]],
    ['prompt-cache', ['prompt-cache', path, '--system', 'Hi']],
    ['train-classifier', ['train-classifier', path, text]],
  ];
  /** @type {[string, number, RegExp][]} */
  const refused = [
    [join(folder, 'taken'), 1, /^bq4: WRITE: .*taken can't be written: it is a folder\n/],
    [join(folder, 'none', 'x'), 1, /^bq4: WRITE: .*x can't be written: .*none is no existing folder\n/],
    [join(notes, 'x'), 1, /^bq4: WRITE: .*x can't be written: .*notes\.txt is not a folder\n/],
    [path, 2, /would replace/],
    ['-', 2, /expected the path of a file, found "-"; a file of that name is \.\/-\n/],
    ['', 2, /expected the path of a file, found ""\n/],
  ];
  // Root may write any file.
  if (process.getuid?.() !== 0) refused.push([readOnly, 1, /^bq4: WRITE: .*read-only\.json can't be written: EACCES/]);
  for (const [name, args] of commands)
    for (const [output, expected, message] of refused) {
      const { status, stdout, stderr } = bq4(...args, output);
      assert.deepEqual([status, stdout], [expected, ''], `${name} ${output}: ${stderr}`);
      assert.match(stderr, message, `${name} ${output}`);
    }
  assert.equal(readFileSync(notes, 'utf8'), 'kept');
  assert.ok(!existsSync(join(folder, 'out.bq4')) && !existsSync(image));
  // An existing file is replaced.
  assert.equal(bq4('run', path, 'Once', '--max-tokens', '2', '--receipt', notes).status, 0);
  assert.match(readFileSync(notes, 'utf8'), /^\{.*"tokens"/s);
});

test('inspect and convert: a file that is no model is described, with the expected formats', () => {
  const FORMATS = /\n +expected \.bq4, \.gguf, \.safetensors, /;
  /** @type {[string, string | Buffer, RegExp, RegExp][]} */
  const files = [
    ['letter.txt', 'Dear reader,\nhello.\n', /letter\.txt is a text file: "Dear reader,\\nhello\."\n/, FORMATS],
    ['text.gguf', 'é'.repeat(300), /text\.gguf is a text file: "é/, FORMATS],
    ['settings.json', '{"a": 1}', /settings\.json is JSON or a template: /, FORMATS],
    ['chat.jinja', '{% for m in messages %}', /chat\.jinja is JSON or a template: /, FORMATS],
    ['page.html', '<!DOCTYPE html><p>', /page\.html is a web page\n/, /use the address of the file itself/],
    [
      'pointer.gguf',
      'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n',
      /pointer\.gguf is a pointer of Git LFS, not the file itself\n/,
      /git lfs pull/,
    ],
    ['photo.bin', Buffer.from('\x89PNG\r\n\x1a\n12345678901234567890', 'latin1'), /is a picture\n/, FORMATS],
    ['model.gguf.gz', Buffer.from('\x1f\x8b\b12345678901234567890', 'latin1'), /is a compressed file\n/, /extract it/],
    ['noise.bin', Buffer.alloc(99, 0xc3), /begins with the bytes c3 c3 c3 c3, as no known format does\n/, FORMATS],
    ['empty.bin', '', /empty\.bin is empty\n/, /fetch it again/],
  ];
  for (const [name, content, message, hint] of files) {
    const input = join(folder, name);
    writeFileSync(input, content);
    for (const args of [
      ['inspect', input],
      ['convert', input, join(folder, 'of-no-model.bq4')],
    ]) {
      const { status, stderr } = bq4(...args);
      assert.equal(status, 1, name);
      assert.match(stderr, /^bq4: NOT_A_MODEL: /, name);
      assert.match(stderr, message, name);
      assert.match(stderr, hint, name);
    }
  }
});

test('a failed write is reported without a stack; a closed pipe ends the program', async () => {
  const outputs = [
    ['run', path, 'Once', '--max-tokens', '2', '--receipt', join(folder, 'none', 'x.json')],
    ['bundle', path, join(folder, 'none', 'x.json')],
  ];
  for (const args of outputs) {
    const { status, stderr } = bq4(...args);
    assert.equal(status, 1, args[0]);
    assert.match(
      stderr,
      /^bq4: WRITE: .*none.x\.json can't be written: .*\n +check the folder, its permissions/,
      args[0],
    );
    assert.doesNotMatch(stderr, /^\s+at /m);
  }
  assert.equal(bq4(...outputs[0]).stdout, '', 'nothing is computed');
  assert.match(bq4('replay', join(folder, 'none.json'), path).stderr, /READ: .*none\.json can't be read/);
  const child = spawn(process.execPath, [program, 'run', path, 'Once', '--max-tokens', '60']);
  child.stdout.destroy();
  const parts = /** @type {Buffer[]} */ ([]);
  child.stderr.on('data', (part) => parts.push(part));
  const code = await new Promise((resolve) => child.on('close', resolve));
  assert.deepEqual([code, Buffer.concat(parts).toString()], [0, '']);
});

test('run --json: one object with the result of the engine', async () => {
  const { status, stdout } = bq4(
    'run',
    path,
    '--prompt',
    'Once upon',
    '--max-tokens',
    '12',
    '--temperature',
    '0',
    '--build',
    'relaxed',
    '--json',
  );
  assert.equal(status, 0);
  const out = JSON.parse(stdout);
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const model = await engine.load(fromBytes(file));
  const expected = await (await model.createSession()).generate('Once upon', { temperature: 0, maxTokens: 12 }).result;
  assert.deepEqual(out.tokens, expected.tokens);
  assert.equal(out.text, expected.text);
  assert.equal(out.finishReason, expected.finishReason);
  assert.equal(out.build, engine.info.build);
  assert.equal(out.usage.completionTokens, expected.tokens.length);
  for (const name of ['prefillMs', 'firstTokenMs', 'decodeMs']) assert.equal(typeof out.timings[name], 'number');
  const plain = bq4('run', path, '--prompt', 'Once upon', '--max-tokens', '12', '--temperature', '0');
  assert.equal(plain.stdout, `${expected.text}\n`);
  await engine.close();
});

test('run: a prompt of - is read from standard input', () => {
  const run = (/** @type {string[]} */ prompt, /** @type {string | Uint8Array} */ input = '') =>
    spawnSync(
      process.execPath,
      [program, 'run', path, ...prompt, '--max-tokens', '5', '--temperature', '0', '--json'],
      {
        encoding: 'utf8',
        input,
      },
    );
  const { tokens, usage } = JSON.parse(run(['-'], 'Ahoy there\n').stdout);
  const expected = JSON.parse(run(['--prompt', 'Ahoy there']).stdout);
  assert.deepEqual([tokens, usage.promptTokens], [expected.tokens, expected.usage.promptTokens]);
  assert.notDeepEqual(JSON.parse(run(['--prompt', '-']).stdout).usage.promptTokens, usage.promptTokens);
  assert.match(run([]).stderr, /needs one prompt: after FILE, as --prompt TEXT, or - for standard input/);
  // As written by Windows: with a byte order mark of UTF-8, which is not part of the text, or in UTF-16.
  assert.deepEqual(JSON.parse(run(['-'], '\ufeffAhoy there\r\n').stdout).tokens, expected.tokens);
  const utf16 = run(['-'], Buffer.from('\ufeffAhoy there', 'utf16le'));
  assert.equal(utf16.status, 1);
  assert.match(utf16.stderr, /^bq4: ARGUMENT: standard input: expected text in UTF-8, found other bytes/);
});

test('run: an address, an empty prompt, a seed, a stop string, a chat turn', async () => {
  // The server is in this process, so the program must not block it.
  const server = await faultServer(file);
  const child = spawn(process.execPath, [
    program,
    'run',
    server.url,
    '--prompt',
    '',
    '--max-tokens',
    '3',
    '--temperature',
    '0',
    '--json',
  ]);
  const text = (await child.stdout.toArray()).join('');
  assert.equal(JSON.parse(text).usage.promptTokens, 1, 'BOS');
  await server.close();
  const seeded = (...more) =>
    JSON.parse(
      bq4('run', path, '--prompt', 'a', '--seed', '5', '--max-tokens', '20', '--temperature', '1', '--json', ...more)
        .stdout,
    );
  const free = seeded();
  assert.deepEqual(seeded().tokens, free.tokens);
  const cut = seeded('--stop', free.text.slice(3, 5));
  assert.equal(cut.text, free.text.slice(0, free.text.indexOf(free.text.slice(3, 5))));
  assert.ok(seeded('--chat').usage.promptTokens > free.usage.promptTokens);
});

test('chat: answers to lines, /new, /again', async () => {
  const engine = await createEngine({ build: 'relaxed', threads: 1 });
  const chat = await (await engine.load(fromBytes(file))).createChat();
  const { text } = await chat.send('Hello', { temperature: 0, maxTokens: 5 }).result;
  await engine.close();
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [program, 'chat', path, '--max-tokens', '5', '--temperature', '0'],
    { encoding: 'utf8', input: 'Hello\n/again\n/new\nHello\n' },
  );
  assert.equal(status, 0, stderr);
  assert.match(stderr, /tiny: (relaxed|relaxed16|simd128) kernels/);
  assert.equal(stdout.replaceAll('> ', ''), `${text}\n`.repeat(3));
});

test('chat: Ctrl-C stops the answer, not the program', async (t) => {
  const big = join(folder, 'big.bq4');
  // Its answers end only when the context is full.
  const tokens = { ...tokenizer(), eog: [] };
  writeFileSync(
    big,
    await tinyModel({
      type: 'bq4',
      config: { hidden: 128, layers: 6, ffn: 384, context: 2048 },
      tokens,
      chat: { ...CHAT, stop: [] },
    }),
  );
  const child = spawn(process.execPath, [program, 'chat', big, '--temperature', '1', '--seed', '1']);
  t.after(() => child.kill('SIGKILL'));
  let out = '';
  child.stdout.on('data', (data) => (out += data));
  child.stdin.write('Hello\n');
  const shown = async (/** @type {string} */ what, /** @type {() => boolean} */ reached) => {
    await until(what, () => reached() || child.exitCode !== null, { state: () => out });
    assert.equal(child.exitCode, null, out);
  };
  for (const message of ['Hi\n', 'Again\n']) {
    const { length } = out;
    await shown('a part of the answer', () => out.length > length + 20);
    child.kill('SIGINT');
    await shown('the prompt', () => out.endsWith('\n> '));
    child.stdin.write(message);
  }
  child.stdin.end();
  assert.equal(await new Promise((resolve) => child.on('exit', resolve)), 0);
});

test('inspect: the file as JSON and as text', () => {
  const { status, stdout } = bq4('inspect', path, '--json');
  assert.equal(status, 0);
  const r = JSON.parse(stdout);
  assert.deepEqual([r.format.version, r.format.fileLength, r.name, r.license], [2, file.length, 'tiny', 'CC0-1.0']);
  assert.deepEqual([r.config.arch, r.config.layers, r.config.norm, r.config.tied], ['llama', 3, 'rms', 1]);
  assert.equal(r.tensors.length, 1 + 3 * 9 + 1);
  assert.deepEqual(
    { ...r.tensors[0], offset: 0 },
    { name: 'wte.weight', type: 'bq4_32', layout: 'tiled', dims: [271, 48], offset: 0, bytes: 34 * 2 * 160 },
  );
  assert.deepEqual(
    [r.hashes.header, r.hashes.plan, r.hashes.prefix, r.hashes.kind, r.hashes.damaged],
    ['ok', 'ok', 'ok', 'xxh64', []],
  );
  assert.equal(r.hashes.chunks, 1);
  assert.equal(r.tokenizer.kind, 'bpe');
  assert.ok(r.plan.heapBytes > r.plan.weightBytes);
  const text = bq4('inspect', path).stdout;
  for (const part of [
    /v2, minor 0/,
    /CC0-1\.0/,
    /h\.2\.mlp\.down\.weight\s+bq4_32\s+tiled\s+48 × 96/,
    /all valid/,
    /heap\s+[\d.]+ [KM]iB for 1 session of 256 tokens/,
  ])
    assert.match(text, part);
});

test('convert, inspect, run: from a checkpoint to text, v2 and v1', () => {
  const from = fileURLToPath(new URL('../golden/tiny', import.meta.url));
  for (const [name, ...more] of [
    ['v2.bq4', '--quant', 'f32'],
    ['v1.bq4', '--v1'],
  ]) {
    const to = join(folder, name);
    const { status, stdout, stderr } = bq4('convert', from, to, '--name', 'golden', '--license', 'MIT', ...more);
    assert.equal(status, 0, stderr);
    assert.match(stdout, /weights in \d+ bytes/);
    const r = JSON.parse(bq4('inspect', to, '--json').stdout);
    assert.deepEqual([r.format.version, r.name, r.license], [Number(name[1]), 'golden', 'MIT']);
    assert.ok(r.plan.heapBytes > 0);
    assert.equal(
      JSON.parse(bq4('run', to, '--prompt', 'the', '--max-tokens', '4', '--temperature', '0', '--json').stdout).tokens
        .length,
      4,
    );
  }
  assert.ok(JSON.parse(bq4('convert', from, join(folder, 'x.bq4'), '--json').stdout).tensors.length > 5);
  const bad = bq4('convert', join(folder, 'none.bin'), join(folder, 'y.bq4'));
  assert.equal(bad.status, 1);
  assert.match(bad.stderr, /^bq4: READ: /);
  assert.equal(bq4('convert', from, join(folder, 'y.bq4'), '--quant', 'q9').status, 1);
  assert.ok(!existsSync(join(folder, 'y.bq4')));
});

test('inspect: damage is named, with exit code 1', () => {
  const bytes = file.slice();
  bytes[bytes.length - 5] ^= 1;
  const bad = join(folder, 'bad.bq4');
  writeFileSync(bad, bytes);
  const { status, stdout } = bq4('inspect', bad);
  assert.equal(status, 1);
  assert.match(stdout, /DAMAGED: chunk 0 at byte \d+/);
  bytes.set(file);
  bytes[70] ^= 1;
  writeFileSync(bad, bytes);
  assert.match(bq4('inspect', bad).stdout, /DAMAGED: plan, prefix/);
});
