/**
 * Loads weights of a model that does not fit in memory: the C code decides which bytes go to which address
 * (c/model/pages.h).
 */
import { openReader, readInto } from '../storage/sources/reader.js';
import { BqError } from '../shared/errors.js';
import { structs } from '../wasm/abi.js';

/** @import { Reader } from '../storage/sources/reader.js' */
/** @import { Source } from '../shared/types.js' */
/** @import { Wasm } from '../wasm/wasm.js' */

/** Largest number of pages that are requested in one call. */
const PAGES_PER_CALL = 64;

export class WeightPages {
  #wasm;
  #model;
  #reader;

  /** @param {Wasm} wasm @param {number} model  its handle @param {Reader} reader */
  constructor(wasm, model, reader) {
    this.#wasm = wasm;
    this.#model = model;
    this.#reader = reader;
  }

  /**
   * Opens the file, which is closed when the instance is released. Throws READ.
   * @param {Wasm} wasm @param {number} model @param {Source} source
   */
  static async open(wasm, model, source) {
    const reader = await openReader(source);
    const previousHandler = wasm.onRelease;
    wasm.onRelease = () => {
      previousHandler();
      void reader.close();
    };
    return new WeightPages(wasm, model, reader);
  }

  /** Reads the bytes of a page. Throws READ. @param {number} at  address of a bqw_page */
  async #fill(at) {
    const { offset, dst, bytes, id } = this.#wasm.read('bqw_page', at);
    let succeeded = 0;
    try {
      await readInto(this.#reader, this.#wasm, offset, dst, bytes);
      succeeded = 1;
    } finally {
      if (this.#wasm.alive) this.#wasm.check('bqw_page_done', this.#model, id, succeeded);
    }
  }

  /**
   * Requests pages and reads them.
   * @param {number} count @param {(at: number) => number} request  writes at most `count` pages to `at` and returns
   *   their number
   */
  async #read(count, request) {
    const { size } = structs.bqw_page;
    const at = this.#wasm.alloc(count * size);
    try {
      const pages = request(at);
      for (let i = 0; i < pages; i++) await this.#fill(at + i * size);
      return pages;
    } finally {
      this.#wasm.free(at);
    }
  }

  /** Loads the weights of a layer. Throws READ. @param {number} session @param {number} layer */
  layer(session, layer) {
    return this.#read(1, (at) => {
      this.#wasm.check('bqw_layer_page', session, layer, at);
      return this.#wasm.read('bqw_page', at).bytes && 1;
    });
  }

  /** Loads the weights that a session needs next. Throws READ. @param {number} session */
  async loadMissing(session) {
    const pages = await this.#read(PAGES_PER_CALL, (at) =>
      this.#wasm.out('bqw_session_pages', session, at, PAGES_PER_CALL),
    );
    if (!pages) throw new BqError('STATE', 'the session waits for weights but names no pages to load');
  }
}
