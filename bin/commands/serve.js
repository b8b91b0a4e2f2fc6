/** `bq4 serve`: an HTTP server with OpenAI's API, for development. */
import { basename } from 'node:path';
import { stderr, stdout } from 'node:process';
import { createWorkerEngine } from '../../js/index.js';
import { serveModels } from '../../js/api/server/index.js';
import { DECODE, ENGINE, loadOptions, numberOf, sourceOf, Usage, value, values } from '../options.js';

/** @type {import('../command.js').Command} */
export const command = {
  summary: "serves models with OpenAI's API on this machine",
  operands: 'FILE...',
  about: 'Prints its address when it is ready. The name of a model is its file name without the extension.',
  loadsFile: true,
  options: {
    port: value('N', 'port (default 8080); 0: any free port'),
    host: value('NAME', 'host to listen on (default 127.0.0.1, which only this machine can reach)'),
    token: value('TEXT', 'token that clients must send (default: the environment variable BQ4_TOKEN)'),
    'allow-origin': values('URL', "origin whose pages may send requests; '*': all origins"),
    'allow-host': values('NAME', 'further host name of the server that requests may use'),
    'max-body': value('BYTES', 'largest size of a request (default 4 MiB)'),
    'max-waiting': value('N', 'largest number of requests that wait for a model (default 32)'),
    ...DECODE,
    ...ENGINE,
  },
  run: serveFiles,
};

/** Returns the id of a model for clients: its file name without the extension. @param {string} file */
const idOf = (file) => basename(file.split(/[?#]/, 1)[0]).replace(/\.(bq4|gguf)$/i, '');

/** Whether only this machine can reach a host. @param {string} host */
const isLocal = (host) => host === 'localhost' || host === '::1' || /^127\./.test(host);

/** @param {string[]} files @param {any} options */
export async function serveFiles(files, options) {
  const port = options.port === undefined ? undefined : Number(options.port);
  if (port !== undefined && !(/^\d+$/.test(options.port) && port <= 65535))
    throw new Usage(`--port: expected an integer from 0 to 65535, found "${options.port}"`);
  const { host, 'allow-origin': origins, 'allow-host': hosts, token = process.env.BQ4_TOKEN || undefined } = options;
  const ids = files.map(idOf);
  if (new Set(ids).size < ids.length)
    throw new Usage(`two files would both have the id "${ids.find((id, i) => ids.indexOf(id) < i)}"`);
  const modelOptions = loadOptions(options);
  const engine = await createWorkerEngine({ build: options.build, threads: numberOf(options, 'threads') });
  try {
    const models = [];
    for (const [i, file] of files.entries())
      models.push({ id: ids[i], model: await engine.load(await sourceOf(file, options), modelOptions) });
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
      stderr.write(`bq4: other machines on the network can send requests: pass --token to restrict access\n`);
    stdout.write(`${server.url}\n`);
    await new Promise((resolve) => ['SIGINT', 'SIGTERM'].forEach((name) => process.once(name, resolve)));
    await server.close();
  } finally {
    await engine.close();
  }
}
