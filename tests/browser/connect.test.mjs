// Tests of `connect()` in a page, with a `bq4 serve` of another origin: replies, and errors that name why the server cannot be reached.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect } from '../../js/connect.js';
import { inTime } from '../waiting.mjs';
import { expectFaults } from './console.mjs';
import { chromiumFirst, oneSite } from './every.mjs';
import { host } from './host.mjs';
import { ROOT } from './site.mjs';

const TOKEN = 'sesame'; // so that requests have a header for which browsers ask first
const messages = [{ role: /** @type {const} */ ('user'), content: 'Who are you?' }];
const request = { messages, temperature: 0, max_tokens: 12 };

await chromiumFirst((name) => {
  const here = oneSite(name);
  /** Allowed by the server, not by its own policy. @type {Awaited<ReturnType<typeof host>>} */
  let strict;
  /** Not allowed by the server. @type {Awaited<ReturnType<typeof host>>} */
  let stranger;
  /** @type {import('node:child_process').ChildProcessByStdio<null, import('node:stream').Readable, null>} */
  let served;
  let url = '';
  before(async () => {
    strict = await host({ 'content-security-policy': "connect-src 'self'" });
    stranger = await host();
    const origins = [here.site, strict].flatMap((site) => ['--allow-origin', new URL(site.url).origin]);
    const options = ['--port', '0', '--context', '256', '--threads', '1', '--token', TOKEN, ...origins];
    served = spawn(process.execPath, [join(ROOT, 'bin/bq4.js'), 'serve', join(ROOT, 'models/chat.bq4'), ...options], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    for await (const part of served.stdout.setEncoding('utf8').iterator({ destroyOnReturn: false }))
      if ((url += part).includes('\n')) break;
    url = url.trim();
  });
  after(async () => {
    if (served && served.exitCode === null) {
      const ended = new Promise((resolve) => served.on('close', resolve));
      served.kill('SIGINT');
      await inTime('bq4 serve to end', ended);
    }
    await stranger?.close();
    await strict?.close();
  });

  test('a page of an allowed origin gets the same reply as Node, complete and streamed; an abort ends it', async () => {
    const page = await here.open();
    const result = await page.evaluate(
      async (/** @type {any} */ { url, token, request }) => {
        const { connect } = await import(new URL('/js/connect.js', location.href).href);
        const { completions } = connect(url, { apiKey: token }).chat;
        const whole = (await completions.create(request)).choices[0].message.content;
        let streamed = '';
        for await (const { choices } of await completions.create({ ...request, stream: true }))
          streamed += choices[0].delta.content ?? '';
        const controller = new AbortController();
        const long = { ...request, max_tokens: 200, response_format: { type: 'regex', pattern: '[a-z ]{400}' } };
        let error;
        try {
          for await (const _ of await completions.create({ ...long, stream: true }, { signal: controller.signal }))
            controller.abort();
        } catch (thrown) {
          error = /** @type {Error} */ (thrown).name;
        }
        return { whole, streamed, error };
      },
      { url, token: TOKEN, request },
    );
    const own = await connect(url, { apiKey: TOKEN }).chat.completions.create(request);
    const text = own.choices[0].message.content;
    assert.ok(text);
    assert.deepEqual(result, { whole: text, streamed: text, error: 'AbortError' });
    assert.deepEqual(await page.trouble(), []);
    await page.close();
  });

  for (const [why, siteOf, cause] of /** @type {[string, () => typeof strict, RegExp][]} */ ([
    ['an origin that is not allowed', () => stranger, /allows this page \(CORS\)/],
    ['a policy without it in connect-src', () => strict, /connect-src of the Content-Security-Policy allows it/],
  ]))
    test(`a page of ${why}: the error names the address and the cause`, async () => {
      if (siteOf() === strict) expectFaults(/connect-src/);
      const page = await here.browser.open(siteOf().url);
      const error = await page.evaluate(
        async (/** @type {any} */ { url, token, request }) => {
          addEventListener('securitypolicyviolation', ({ effectiveDirective: violated }) =>
            Object.assign(window, { violated }),
          );
          const { connect } = await import(new URL('/js/connect.js', location.href).href);
          return connect(url, { apiKey: token, model: 'chat' })
            .chat.completions.create(request)
            .then(
              () => ({ code: 'none' }),
              (/** @type {any} */ { code, message, hint }) => ({ code, message, hint }),
            );
        },
        { url, token: TOKEN, request },
      );
      assert.equal(error.code, 'NETWORK');
      assert.ok(error.message.startsWith(`${url}/chat/completions can't be reached: `), error.message);
      assert.match(error.hint, cause);
      if (siteOf() === strict) await page.until(() => 'violated' in window); // Firefox says so after the failure
      assert.equal(
        await page.evaluate(() => /** @type {any} */ (window).violated ?? ''),
        siteOf() === strict ? 'connect-src' : '',
      );
      await page.close();
    });
});
