#!/usr/bin/env node
// `npm start`: sets up, builds outdated modules, and serves the demo on this machine.
import { parseArgs } from 'node:util';
import { buildWasm } from './build.mjs';
import { serve } from './serve.mjs';
import { provideEmbedder } from './setup/embedder.mjs';
import { say, SetupError } from './setup/shell.mjs';
import { modelsFolder } from './setup/models.mjs';
import { provideNodeModules } from './setup/npm.mjs';
import { command, ROOT, setUp } from './setup/setup.mjs';

const DEFAULT_PORT = 8080;
/** Address of this machine, for which compression has no benefit. */
const LOOPBACK = '127.0.0.1';
const HELP = `npm start -- [--port N] [--host NAME]

Builds bq4 and serves its demo at http://localhost:${DEFAULT_PORT}/ (or the next free port).
--port N     uses this port only (default: the environment variable PORT)
--host NAME  listens on this address instead of 127.0.0.1; browsers on other machines need https
`;

/** Parses a port number. Throws SetupError for other text. @param {string} text */
function parsePort(text) {
  const port = Number(text);
  if (!/^\d+$/.test(text) || port > 65535) throw new SetupError(`expected a port from 0 to 65535, found "${text}"`);
  return port;
}

/**
 * Starts the server. If the port is in use, the next ports are tried.
 * @param {{port: number, host: string, fixed: boolean}} options  `fixed`: whether no other port is tried
 */
async function listen({ port, host, fixed }) {
  for (let candidate = port; ; candidate++) {
    try {
      return await serve({ root: ROOT, port: candidate, host, models: modelsFolder(), compress: host !== LOOPBACK });
    } catch (error) {
      const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
      if (code !== 'EADDRINUSE') throw new SetupError(`cannot listen on ${host}, port ${candidate}: ${message}`);
      if (fixed || candidate >= port + 100)
        throw new SetupError(
          `expected a free port, found that ${candidate} is in use: choose another port with --port`,
        );
      say(`port ${candidate} is in use, trying ${candidate + 1}`);
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
  const portText = values.port ?? process.env.PORT;
  const port = portText ? parsePort(portText) : DEFAULT_PORT;
  await buildWasm(await setUp());
  // The page loads one of these packages, for unknown chat templates. Everything else works without it.
  await provideNodeModules(ROOT).catch((error) =>
    say(`no npm packages: models whose chat templates are unknown cannot chat. ${error.message}`),
  );
  await provideEmbedder().catch((error) => say(`no model for the search page: ${error.message}`));
  const { url } = await listen({ port, host: values.host ?? LOOPBACK, fixed: Boolean(portText) });
  console.log(`bq4 demo: ${url}demo/  (Ctrl+C stops it)`);
});
