/** A stream of chunks with the interface of the streams of OpenAI's client. */
import { asyncDispose, iterate } from '../../shared/async.js';

const encoder = new TextEncoder();

/** @template T @implements {AsyncIterable<T>} */
export class ChunkStream {
  #chunks;
  /** Aborts the request. */
  controller;

  /** @param {AsyncGenerator<T, void>} chunks @param {AbortController} controller */
  constructor(chunks, controller) {
    this.#chunks = chunks;
    this.controller = controller;
  }

  /** Leaving the iteration aborts the request, even if nothing was read. */
  [Symbol.asyncIterator]() {
    return iterate(
      () => this.#chunks.next(),
      () => this[asyncDispose](),
    );
  }

  /**
   * Returns a stream with a line of JSON for each chunk, as in OpenAI's client.
   * @returns {ReadableStream<Uint8Array>}
   */
  toReadableStream() {
    const chunks = this.#chunks;
    return new ReadableStream({
      async pull(sink) {
        const { done, value } = await chunks.next();
        if (done) sink.close();
        else sink.enqueue(encoder.encode(`${JSON.stringify(value)}\n`));
      },
      cancel: () => this[asyncDispose](),
    });
  }

  /** Ends the stream and aborts the request, even if nothing was read. */
  async [asyncDispose]() {
    await this.#chunks.return();
    this.controller.abort();
  }
}
