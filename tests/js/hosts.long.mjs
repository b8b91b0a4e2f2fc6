// Tests of the engine in apps (examples/hosts): the C interface from Java and from Objective-C, and the package in a web view with files of
// the app's own URL scheme. Results equal those of Node. Tests without a compiler on this machine are skipped.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { findAppHosts } from '../../tools/setup/system.mjs';
import { createEngine } from '../../js/node.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const HOSTS = join(ROOT, 'examples/hosts');
const MODEL = join(ROOT, 'models/chat.bq4');
const PROMPT = 'Once upon a time';
const TOKENS = 40;
const { javac = '', gnustep = '', webView = '' } = findAppHosts();
/** Why a test is skipped, if it is. @param {string} found @param {string} lacking */
const needs = (found, lacking) => ({ skip: found ? false : `no ${lacking}` });

const folder = mkdtempSync(join(tmpdir(), 'bq4-hosts-'));
/** @type {import('../../js/index.js').Engine} */
let engine;
/** What Node says. */
const wanted = { text: '', chat: '' };

/** @param {string} program @param {string[]} args @param {NodeJS.ProcessEnv} [env] */
const run = (program, args, env) =>
  execFileSync(program, args, { cwd: folder, encoding: 'utf8', env: { ...process.env, ...env }, timeout: 240_000 });

const C = ['-std=c11', '-O2', '-fPIC', '-ffp-contract=off', '-fno-math-errno', '-Wall', '-Wextra', '-Werror'];
const INCLUDES = [`-I${ROOT}/c`, `-I${HOSTS}`];
const ENGINE = readdirSync(join(ROOT, 'c'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.c'))
  .map((name) => join(ROOT, 'c', name))
  .concat(join(HOSTS, 'reply.c'));

before(async () => {
  engine = await createEngine({ threads: 1 });
  const model = await engine.load(new Uint8Array(readFileSync(MODEL)), { contextTokens: 256, kv: 'i8' });
  wanted.text = (await model.generate(PROMPT, { temperature: 0, maxTokens: TOKENS }).result).text;
  const chat = await model.createChat();
  wanted.chat = (await chat.send('Tell me a joke', { temperature: 0, maxTokens: 60 }).result).text;
  assert.ok(wanted.text.length > 40 && wanted.chat.length > 10);
});

after(async () => {
  await engine?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** @param {string} out  of a program that says a part a line, and what comes after */
function partsOf(out) {
  const lines = out.split('\n');
  const end = lines.findIndex((line) => line.startsWith('stopped'));
  return { text: lines.slice(0, end).join(''), rest: lines.slice(end, -1) };
}

test(
  'from Java, through JNI: the same reply, a stop, an exception of the listener, a failure that says why',
  needs(javac, 'javac with jni.h beside it: a JDK'),
  () => {
    const home = dirname(dirname(javac));
    const android = join(HOSTS, 'android/app/src/main');
    const jni = [`-I${home}/include`, `-I${home}/include/linux`];
    run('gcc', [...C, '-shared', ...jni, ...INCLUDES, ...ENGINE, `${android}/cpp/jni.c`, '-o', 'libbq4.so', '-lm']);
    run(javac, [
      '-Xlint:all,-serial,-try',
      '-Werror',
      '-d',
      '.',
      `${android}/java/org/bq4/example/Bq4.java`,
      `${HOSTS}/try/Try.java`,
    ]);
    const out = run(join(home, 'bin/java'), [
      '-Xcheck:jni',
      '-Djava.library.path=.',
      'Try',
      MODEL,
      PROMPT,
      `${TOKENS}`,
    ]);
    const { text, rest } = partsOf(out);
    assert.equal(text, wanted.text);
    assert.deepEqual(rest.slice(0, 2), ['stopped after 3', 'thrown']);
    assert.match(rest[2], /^FORMAT: the file does not begin with "BQ4F" \(.*fetch it again/);
    assert.equal(rest.length, 3, 'the check of JNI has no complaint');
  },
);

test(
  'from Objective-C: the same reply, a stop, an error that says why',
  needs(gnustep, 'gnustep-config: Objective-C with GNUstep'),
  () => {
    const flags = run(gnustep, ['--objc-flags']).trim().split(/\s+/);
    const ours = flags.filter((flag) => !/^-(MMD|MP|g|O2|I\.)$/.test(flag));
    run('gcc', [...C, '-shared', ...INCLUDES, ...ENGINE, '-o', 'libbq4objc.so', '-lm']);
    const sources = [`${HOSTS}/ios/Bq4.m`, `${HOSTS}/try/try.m`];
    const libraries = ['-L.', '-lbq4objc', '-lgnustep-base', '-lobjc'];
    run('gcc', [
      ...ours,
      '-std=gnu11',
      '-Werror',
      ...INCLUDES,
      `-I${HOSTS}/ios`,
      ...sources,
      ...libraries,
      '-o',
      'try',
    ]);
    const { text, rest } = partsOf(run('./try', [MODEL, PROMPT, `${TOKENS}`], { LD_LIBRARY_PATH: '.' }));
    assert.equal(text, wanted.text);
    assert.deepEqual(rest, ['stopped after 3', 'the file does not begin with "BQ4F"']);
  },
);

test(
  'the page of an app, in a web view whose files come by a scheme of its own',
  needs(webView, 'xvfb-run, or no WebKitGTK for /usr/bin/python3'),
  () => {
    const page = join(folder, 'page');
    cpSync(join(HOSTS, 'page'), page, { recursive: true });
    mkdirSync(join(page, 'bq4/build'), { recursive: true });
    cpSync(join(ROOT, 'dist'), join(page, 'bq4/dist'), { recursive: true });
    cpSync(join(ROOT, 'build/wasm'), join(page, 'bq4/build/wasm'), { recursive: true });
    copyFileSync(MODEL, join(page, 'chat.bq4'));
    assert.ok(existsSync(join(page, 'bq4/dist/index.js')), 'npm run dist makes it');
    // Nothing of it stays in the home folder.
    const env = { XDG_CACHE_HOME: join(folder, 'cache'), XDG_DATA_HOME: join(folder, 'data') };
    const out = run('xvfb-run', ['-a', webView, join(HOSTS, 'try/app.py'), page, 'Tell me a joke'], env);
    const message = JSON.parse(out.trim().split('\n').at(-1) ?? '');
    assert.equal(message.began, "Ready: simd128, 1 of this device's threads.");
    assert.equal(message.status, 'Ready.');
    assert.equal(message.reply, wanted.chat);
  },
);
