// Tests of the first page of docs/guides/first-chat.md on a host with the headers of docs/guides/hosting.md: it runs, and its transferred
// bytes are limited.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { makeDist, THREAD_LIMIT } from '../../tools/payload.mjs';
import { expectFaults, failOnFaults } from './console.mjs';
import { launch, missing } from './launch.mjs';
import { newPage, ROOT } from './site.mjs';

failOnFaults();

/**
 * Gzipped bytes of all that a browser transfers for the page, the model aside: of these the engine's module takes at most 108,950
 * (MODULE_LIMIT in tools/size.mjs).
 */
const LIMIT = 175_850;
/** The same from a host that compresses with Brotli: 152 KB. The module without VNNI is 290 bytes larger than that with VNNI. */
const BROTLI_LIMIT = 152_100;
/** Answers that it takes, but for the script that each thread begins with. */
const REQUESTS = 8;
/** @type {Record<string, string>} */
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.wasm': 'application/wasm' };

/** A block of a guide after a heading. @param {string} guide @param {string} heading @param {string} kind */
function block(guide, heading, kind) {
  const text = readFileSync(join(ROOT, 'docs/guides', guide), 'utf8');
  const from = text.indexOf(`\n## ${heading}\n`);
  const found = new RegExp(`\n\`\`\`${kind}\n([^]*?)\n\`\`\`\n`).exec(text.slice(from));
  assert.ok(from >= 0 && found, `${guide} has no ${kind} under "${heading}"`);
  return found[1];
}

/** The headers of the nginx example. @returns {Record<string, string>} */
function headers() {
  const lines = [...block('hosting.md', 'Headers', 'nginx').matchAll(/^add_header (\S+) (?:"([^"]*)"|(\S+));$/gm)];
  assert.equal(lines.length, 3);
  return Object.fromEntries(lines.map(([, name, quoted, plain]) => [name, quoted ?? plain]));
}

/** What the package holds. @type {{ path: string }[] | undefined} */
let packed;
function packedFiles() {
  packed ??= /** @type {{ path: string }[]} */ (
    JSON.parse(
      execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
        cwd: ROOT,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
    )[0].files
  );
  return packed;
}

/**
 * A host of the guide's page with the package as npm installs it. Each answer is compressed, but models.
 * @param {{ policy?: string, script?: string, encoding?: 'gzip' | 'br' }} [options]  what is added to the Content-Security-Policy, and
 *   before the page's script
 */
async function hostOfReadme({ policy = '', script = '', encoding = 'gzip' } = {}) {
  /** @type {Map<string, Buffer>} */
  const site = new Map(packedFiles().map((/** @type {any} */ { path }) => [`/node_modules/bq4/${path}`, path]));
  const part = (/** @type {string} */ kind) => block('first-chat.md', 'A page without a bundler', kind);
  const page = {
    '/': part('html'),
    '/app.js': script ? `await import('./first.js');\nawait import('./main.js');` : part('js'),
    '/first.js': script,
    '/main.js': part('js'),
    '/favicon.ico': '',
  };
  const common = headers();
  common['Content-Security-Policy'] += policy;
  /** Bytes of each answer but the model's. @type {{ path: string, bytes: number }[]} */
  const sent = [];
  const server = createServer((request, response) => {
    const path = String(request.url).split('?')[0];
    const model = path === '/models/chat.bq4';
    const name = path in page ? null : model ? 'models/chat.bq4' : site.get(path);
    if (name === undefined) return void response.writeHead(404, common).end();
    const body =
      name === null
        ? Buffer.from(page[/** @type {keyof typeof page} */ (path)])
        : readFileSync(join(ROOT, String(name)));
    const type = { 'content-type': TYPES[extname(path) || '.html'] ?? 'application/octet-stream', ...common };
    if (model) {
      const [, from, to] = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '') ?? [];
      if (from === undefined) return void response.writeHead(200, { ...type, 'accept-ranges': 'bytes' }).end(body);
      const end = Math.min(to ? Number(to) + 1 : body.length, body.length);
      const range = `bytes ${from}-${end - 1}/${body.length}`;
      return void response
        .writeHead(206, { ...type, 'accept-ranges': 'bytes', 'content-range': range })
        .end(body.subarray(Number(from), end));
    }
    assert.ok(
      String(request.headers['accept-encoding']).includes(encoding),
      `${path} is not asked for with ${encoding}`,
    );
    const compressed = encoding === 'br' ? brotliCompressSync(body) : gzipSync(body, { level: 9 });
    sent.push({ path, bytes: compressed.length });
    response.writeHead(200, { ...type, 'content-encoding': encoding, 'cache-control': 'max-age=600' }).end(compressed);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return {
    url: `http://localhost:${port}/`,
    sent,
    close: () => new Promise((resolve) => server.close(resolve).closeAllConnections()),
  };
}

/** What a host has sent, the model aside, which is printed. @param {Awaited<ReturnType<typeof hostOfReadme>>} host */
function transfersOf({ sent }) {
  const list = sent.map(({ path, bytes }) => `${path.replace('/node_modules/bq4/', '')} ${bytes}`).join(', ');
  const total = sent.reduce((sum, { bytes }) => sum + bytes, 0);
  console.log(`${total} bytes: ${list}`);
  return { list, total };
}

describe('the first page', { skip: missing() }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  /** @type {Awaited<ReturnType<typeof hostOfReadme>>} */
  let host;
  before(async () => {
    assert.equal(makeDist(), '');
    host = await hostOfReadme();
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await host?.close();
  });

  /** The guide's page, which the tests here have in this order. @type {Awaited<ReturnType<typeof newPage>>} */
  let page;

  test('the page of README.md writes a story under its own policy, with threads', async () => {
    page = await newPage(browser);
    await page.goto(host.url);
    assert.ok(await page.evaluate(() => crossOriginIsolated));
    await page.waitForFunction(() => Number(document.querySelector('#out')?.textContent?.length) > 100);
    assert.deepEqual(page.trouble, []);
  });

  test(`all transfers without the model have at most ${LIMIT} bytes gzipped; the main thread loads at most ${THREAD_LIMIT}`, () => {
    const { list, total } = transfersOf(host);
    const own = host.sent.filter(({ path }) => ['/', '/app.js', '/node_modules/bq4/dist/index.js'].includes(path));
    assert.ok(
      host.sent.some(({ path }) => path.endsWith('worker.js')) && host.sent.some(({ path }) => path.endsWith('.wasm')),
      list,
    );
    assert.equal(own.length, 3, list);
    const bytes = own.reduce((sum, each) => sum + each.bytes, 0);
    assert.ok(bytes <= THREAD_LIMIT, `its own thread: ${bytes} bytes`);
    const requests = host.sent.filter(({ path }) => !path.endsWith('/thread.js')).length;
    assert.ok(requests <= REQUESTS, `${requests} requests: ${list}`);
    assert.doesNotMatch(list, /grammar|openai|rare|convert/, 'what few need comes when it is needed');
    assert.ok(total <= LIMIT, `${total} bytes: ${list}`);
  });

  test(`from a host that compresses with Brotli: at most ${BROTLI_LIMIT} bytes`, async () => {
    const other = await hostOfReadme({ encoding: 'br' });
    const visitor = await newPage(browser);
    try {
      await visitor.goto(other.url);
      await visitor.waitForFunction(() => Number(document.querySelector('#out')?.textContent?.length) > 100);
      const { total } = transfersOf(other);
      assert.ok(total <= BROTLI_LIMIT, `${total} bytes`);
      assert.deepEqual(visitor.trouble, []);
    } finally {
      await visitor.context().close();
      await other.close();
    }
  });

  test('the module for grammars is loaded with the first format', async () => {
    const grammars = () => host.sent.filter(({ path }) => path.endsWith('/bq4-grammar.wasm')).length;
    const text = await page.evaluate(async () => {
      const { createWorkerEngine } = await import(`${location.origin}/node_modules/bq4/dist/index.js`);
      const engine = await createWorkerEngine({ cache: 'auto' });
      const model = await engine.load('models/chat.bq4');
      const session = await model.createSession();
      await session.generate('Once', { maxTokens: 2 }).result;
      const { text } = await session.generate('Say', { responseFormat: { type: 'choice', choices: ['yes'] } }).result;
      await engine.close();
      return text;
    });
    assert.deepEqual([text, grammars()], ['yes', 1]);
    assert.deepEqual(page.trouble, []);
    await page.context().close();
  });

  test("a page that requires Trusted Types: runs with the guide's policy, and fails by name without it", async () => {
    const policy = "; require-trusted-types-for 'script'; trusted-types default";
    for (const script of [block('hosting.md', 'Trusted Types', 'js'), '// no policy']) {
      const strict = await hostOfReadme({ policy, script });
      const page = await newPage(browser);
      try {
        if (script.startsWith('//')) expectFaults(/TrustedScriptURL/, /require-trusted-types-for/);
        await page.goto(strict.url);
        const outcome = await page.evaluate(async () => {
          const { createWorkerEngine } = await import(`${location.origin}/node_modules/bq4/dist/index.js`);
          return createWorkerEngine({ threads: 2 }).then(
            async (/** @type {any} */ engine) => [engine.info.threads, await engine.close()],
            (/** @type {any} */ { code, message, hint }) => [code, message, hint],
          );
        });
        if (script.startsWith('//')) {
          assert.equal(outcome[0], 'NO_WORKER');
          assert.match(outcome[1], /the browser refused to create a worker: .*TrustedScriptURL/);
          assert.match(outcome[2], /hosting\.md, Trusted Types/);
        } else {
          assert.equal(outcome[0], 2);
          await page.waitForFunction(() => Number(document.querySelector('#out')?.textContent?.length) > 100);
        }
      } finally {
        await page.context().close();
        await strict.close();
      }
    }
  });
});
