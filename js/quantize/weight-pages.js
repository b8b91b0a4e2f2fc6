/** Weights of a model that reads a text, where not all of them stay in memory: C says which bytes go where (c/model/pages.h), this reads them. */
import { openReader, readInto } from '../storage/sources/reader.js';
import { BqError } from '../shared/errors.js';
import { structs } from '../wasm/abi.js';

/** @import { Reader } from '../storage/sources/reader.js' */
/** @import { Source } from '../shared/types.js' */
/** @import { Wasm } from '../wasm/wasm.js' */

/** Pages that are asked for in one call. */
const PAGES = 64;

export class Pages {
  #wasm;
  #model;
  #reader;

  /** @param {Wasm} wasm @param {number} model  its handle @param {Reader} reader */
  constructor(wasm, model, reader) {
    this.#wasm = wasm;
    this.#model = model;
    this.#reader = reader;
  }

  /** Its file is closed when the heap is released. READ. @param {Wasm} wasm @param {number} model @param {Source} source */
  static async open(wasm, model, source) {
    const reader = await openReader(source);
    const before = wasm.onRelease;
    wasm.onRelease = () => {
      before();
      void reader.close();
    };
    return new Pages(wasm, model, reader);
  }

  /** @param {number} at  of a bqw_page */
  async #fill(at) {
    const { offset, dst, bytes, id } = this.#wasm.read('bqw_page', at);
    let good = 0;
    try {
      await readInto(this.#reader, this.#wasm, offset, dst, bytes);
      good = 1;
    } finally {
      if (this.#wasm.alive) this.#wasm.check('bqw_page_done', this.#model, id, good);
    }
  }

  /** @param {number} count @param {(at: number) => number} ask  for at most so many pages; how many there are to be read */
  async #read(count, ask) {
    const { size } = structs.bqw_page;
    const at = this.#wasm.alloc(count * size);
    try {
      const found = ask(at);
      for (let i = 0; i < found; i++) await this.#fill(at + i * size);
      return found;
    } finally {
      this.#wasm.free(at);
    }
  }

  /** A layer's weights are there afterwards. READ. @param {number} session @param {number} layer */
  layer(session, layer) {
    return this.#read(1, (at) => {
      this.#wasm.check('bqw_layer_page', session, layer, at);
      return this.#wasm.read('bqw_page', at).bytes && 1;
    });
  }

  /** What a session found not to be there. READ. @param {number} session */
  async lacking(session) {
    const found = await this.#read(PAGES, (at) => this.#wasm.out('bqw_session_pages', session, at, PAGES));
    if (!found) throw new BqError('STATE', 'what is lacking is not to be read');
  }
}
