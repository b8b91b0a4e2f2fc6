#!/usr/bin/env node
// `npm start`: sets up, builds what is stale, and serves the demo on this machine.
import { parseArgs } from 'node:util';
import { buildWasm } from './build.mjs';
import { serve } from './serve.mjs';
import { provideEmbedder } from './setup/embedder.mjs';
import { say, SetupError } from './setup/shell.mjs';
import { modelsFolder } from './setup/models.mjs';
import { provideNodeModules } from './setup/npm.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

const DEFAULT_PORT = 8080;
/** Where nothing is gained by compressing. */
const LOOPBACK = '127.0.0.1';
const HELP = `npm start -- [--port N] [--host NAME]

Builds bq4 and serves its demo at http://localhost:${DEFAULT_PORT}/ (or the next free port).
--port N, or the environment's PORT, asks for one port and no other.
--host NAME listens there instead of 127.0.0.1; pages from other machines need https.
`;

/** @param {string} text */
function parsePort(text) {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65535) throw new SetupError(`"${text}" is no port: give a number from 0 to 65535`);
  return port;
}

/** @param {{port: number, host: string, fixed: boolean}} wish */
async function listen({ port, host, fixed }) {
  for (let next = port; ; next++) {
    try {
      return await serve({ root: ROOT, port: next, host, models: modelsFolder(), compress: host !== LOOPBACK });
    } catch (error) {
      const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
      if (code !== 'EADDRINUSE') throw new SetupError(`cannot listen on ${host}, port ${next}: ${message}`);
      if (fixed || next >= port + 100) throw new SetupError(`port ${next} is taken: choose another one with --port`);
      say(`port ${next} is taken, trying ${next + 1}`);
    }
  }
}

await command(async () => {
  let values;
  try {
    ({ values } = parseArgs({
      options: { port: { type: 'string' }, host: { type: 'string' }, help: { type: 'boolean' } },
    }));
  } catch (error) {
    throw new SetupError(`${/** @type {Error} */ (error).message}\n\n${HELP}`);
  }
  if (values.help) return void process.stdout.write(HELP);
  const asked = values.port ?? process.env.PORT;
  const port = asked ? parsePort(asked) : DEFAULT_PORT;
  await buildWasm(await setUp());
  // Of these the page loads one, for chat templates that are not known: without it the rest works.
  await provideNodeModules(ROOT).catch((error) =>
    say(`no npm packages: models with unusual chat templates will not chat. ${error.message}`),
  );
  await provideEmbedder().catch((error) => say(`no model for the search page: ${error.message}`));
  const { url } = await listen({ port, host: values.host ?? LOOPBACK, fixed: Boolean(asked) });
  console.log(`bq4 demo: ${url}demo/  (Ctrl+C stops it)`);
});
