// Tests that a model stored in one start of WebKitGTK is found in the next. Browsers started by its driver are private windows, whose
// profile is deleted at the end. So the browser is started without a driver, and its page reports by requests. cached.test.mjs tests
// restarts of Chromium, also with kill -9 during a download.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { tinyModel } from '../js/fixture.mjs';
import { faultServer } from '../server/faults.mjs';
import { inTime } from '../waiting.mjs';
import { host } from './host.mjs';
import { findMiniBrowser, missing, openWebkit } from './launch-webkit.mjs';

const bytes = await tinyModel({ config: { layers: 4, hidden: 256, ffn: 1024, heads: 4, kv_heads: 2 } });
const skip = missing() ?? (findMiniBrowser() ? false : 'no MiniBrowser where Debian has it');

// OPFS is off in this browser, and with its features on (FileSystem, StorageAPI, AccessHandle) it refuses to be written to.
for (const backend of ['cache', 'indexeddb']) {
  test(
    `webkit, ${backend}: what one start has stored the next one finds, without another byte fetched`,
    { skip },
    async (t) => {
      const profile = mkdtempSync(join(tmpdir(), 'bq4-webkit-'));
      t.after(() => rmSync(profile, { recursive: true, force: true, maxRetries: 5 }));
      const site = await host();
      t.after(site.close);
      const server = await faultServer({ '/model.bq4': bytes });
      t.after(server.close);
      /** One start of the browser: what its page reports. */
      const start = async () => {
        const reported = new Promise((resolve) => {
          server.faults = ({ path }) => {
            if (path.startsWith('/report/')) resolve(JSON.parse(decodeURIComponent(path.slice(8))));
          };
        });
        server.forget();
        const browser = await openWebkit(
          profile,
          `${site.url}tests/browser/kept.html?backend=${backend}&url=${server.url}`,
        );
        t.after(browser.close);
        const report = await inTime('the report of the page', reported, {
          state: () => `${server.sent} bytes sent, asked for: ${server.requests.map(({ path }) => path)}`,
        });
        await browser.close();
        return report;
      };
      const first = await start();
      assert.deepEqual({ ...first, ids: '' }, { ids: '', cached: 0, problem: '', backend });
      assert.ok(server.sent >= bytes.length);
      const second = await start();
      assert.deepEqual(second, { ...first, cached: bytes.length });
      assert.deepEqual(
        server.requests.map(({ path }) => path.split('/')[1]),
        ['report'],
      );
      assert.ok(server.sent < 200, 'the answer to the report');
    },
  );
}
