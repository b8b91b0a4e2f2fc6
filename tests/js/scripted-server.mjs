// A server with OpenAI's interface that sends given replies, for tests of replies that small models do not generate (calls of tools).
import { createServer } from 'node:http';
import { after } from 'node:test';
import { connect } from '../../js/connect.js';

/**
 * Starts the server and connects to it. It is closed after the tests.
 * @param {object[][]} replies  the deltas of each reply, in the order of the requests
 * @returns {Promise<{ model: import('../../js/connect.js').RemoteModel, requests: any[] }>}  `requests`: bodies of all requests
 */
export async function connectToScript(replies) {
  /** @type {any[]} */
  const requests = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const part of request.setEncoding('utf8')) body += part;
    requests.push(JSON.parse(body));
    const deltas = replies[requests.length - 1];
    const calls = deltas.some((delta) => 'tool_calls' in delta);
    const choice = (delta, finish_reason = null) => ({
      id: 'x',
      object: 'chat.completion.chunk',
      created: 1,
      model: 'm',
      choices: [{ index: 0, delta, finish_reason }],
    });
    const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
    const chunks = [
      ...deltas.map((delta) => choice(delta)),
      choice({}, calls ? 'tool_calls' : 'stop'),
      { ...choice({}), choices: [], usage },
    ];
    response
      .writeHead(200, { 'Content-Type': 'text/event-stream' })
      .end(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(undefined)));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  return { model: connect(`http://127.0.0.1:${port}/v1`, { model: 'm' }), requests };
}
