/** A stream of chunks with the interface of the stream that OpenAI's client returns. */
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

  /** Leaving it aborts the request, also where nothing of it was read. */
  [Symbol.asyncIterator]() {
    return iterate(
      () => this.#chunks.next(),
      () => this[asyncDispose](),
    );
  }

  /** A line of JSON for each chunk, as OpenAI's client has it. @returns {ReadableStream<Uint8Array>} */
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

  /** Ends the stream and aborts the request, also where nothing of it was read. */
  async [asyncDispose]() {
    await this.#chunks.return();
    this.controller.abort();
  }
}
