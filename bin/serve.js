/** `bq4 serve`: models as a server with OpenAI's interface, for development. */
import { basename } from 'node:path';
import { stderr, stdout } from 'node:process';
import { createWorkerEngine } from '../js/index.js';
import { serveModels } from '../js/api/server/index.js';
import { loadOptions, numberOf, sourceOf, Usage } from './options.js';

/** What clients call a model: its file, without the ending. @param {string} file */
const idOf = (file) => basename(file.split(/[?#]/, 1)[0]).replace(/\.(bq4|gguf)$/i, '');

/** Only this machine can ask a server there. @param {string} host */
const isLocal = (host) => host === 'localhost' || host === '::1' || /^127\./.test(host);

/** @param {string[]} files @param {any} options */
export async function serveFiles(files, options) {
  const port = numberOf(options, 'port');
  if (port !== undefined && (!Number.isInteger(port) || port > 65535))
    throw new Usage(`--port is "${options.port}", not a port`);
  const { host, 'allow-origin': origins, 'allow-host': hosts, token = process.env.BQ4_TOKEN || undefined } = options;
  const ids = files.map(idOf);
  if (new Set(ids).size < ids.length)
    throw new Usage(`two of the files would both be called "${ids.find((id, i) => ids.indexOf(id) < i)}"`);
  const chosen = loadOptions(options);
  const engine = await createWorkerEngine({ build: options.build, threads: numberOf(options, 'threads') });
  try {
    const models = [];
    for (const [i, file] of files.entries())
      models.push({ id: ids[i], model: await engine.load(await sourceOf(file, options), chosen) });
    const server = await serveModels(models, {
      host,
      port,
      token,
      origins,
      hosts,
      maxBody: numberOf(options, 'max-body'),
      maxWaiting: numberOf(options, 'max-waiting'),
    });
    for (const {
      id,
      model: { info },
    } of models)
      stderr.write(
        `${id}: ${info.name || 'no name'}, ${info.generates ? `context ${info.contextTokens}` : 'embeddings'}, ${Math.ceil(info.heapBytes / 2 ** 20)} MiB\n`,
      );
    if (host && !isLocal(host) && !token)
      stderr.write(`bq4: others on the network may ask: pass --token to keep them out\n`);
    stdout.write(`${server.url}\n`);
    await new Promise((resolve) => ['SIGINT', 'SIGTERM'].forEach((name) => process.once(name, resolve)));
    await server.close();
  } finally {
    await engine.close();
  }
}
