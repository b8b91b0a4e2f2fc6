/**
 * A reply of several parts, each held to what it has to be: what a model thinks first, then its answer, in a format where one was asked for,
 * or calls of tools. Loaded for replies that may call, and for those in a format of models that reason.
 */
import { overlap } from '../../api/chat/stop-strings.js';

/** @import { ReasoningParser } from '../../api/chat/reasoning.js' */
/** @import { Guide, Guides } from './grammar-guide.js' */
/** @import { Branch, Call, CallWriter } from '../prompt/tool-calls.js' */
/** @import { Part, Result } from '../../shared/types.js' */

/** Tokens that stay for what follows the reasoning, as a part of those that may come, and at most. */
const [SHARE, MOST] = [1 / 4, 256];

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** @param {Uint32Array} mask @param {number} id */
const has = (mask, id) => Boolean(mask[id >>> 5] & (1 << (id & 31)));
/** @param {Uint32Array} mask @param {number} id */
const add = (mask, id) => void (mask[id >>> 5] |= 1 << (id & 31));

/** A call that is being written. */
class Writing {
  #guides;
  #writer;
  /** Tools whose calls begin like this one. @type {Branch[]} */
  #branches;
  #at = 0;
  /** Texts of pieces that are there. @type {string[]} */
  #texts = [];
  /** Bytes of the piece that is being written. @type {Uint8Array[]} */
  #bytes = [];
  /** Of each branch's pieces; null: of a special token. @type {Map<Branch, (Guide | null)[]>} */
  #open = new Map();

  /** @param {Guides} guides @param {CallWriter} writer @param {Branch[]} branches */
  constructor(guides, writer, branches) {
    this.#guides = guides;
    this.#writer = writer;
    this.#branches = branches;
  }

  /** Compiles what it needs: tools whose calls are the same up to a piece have one guide for it. GRAMMAR. */
  async prepare() {
    /** @type {Map<string, Guide>} */
    const made = new Map();
    const before = (/** @type {Branch} */ { pieces }, /** @type {number} */ i) =>
      JSON.stringify([i, pieces.slice(0, i)]);
    for (const branch of this.#branches) {
      /** @type {(Guide | null)[]} */
      const guides = [];
      for (const [i, { special }] of branch.pieces.entries()) {
        const key = before(branch, i);
        if (special === null && !made.has(key)) {
          const others = this.#branches.filter((other) => before(other, i) === key);
          const nodes = new Map(others.map(({ pieces }) => [JSON.stringify(pieces[i].node), pieces[i].node]));
          const end = branch.pieces[i + 1]?.special ?? null;
          made.set(key, await this.#guides.part({ any: [...nodes.values()] }, end === null ? [] : [end]));
        }
        guides.push(special === null ? /** @type {Guide} */ (made.get(key)) : null);
      }
      this.#open.set(branch, guides);
    }
    return this;
  }

  /** What of the tools' parameters was passed over. */
  get warnings() {
    return [...this.#open.values()].flat().flatMap((guide) => guide?.warnings ?? []);
  }

  get #piece() {
    return this.#branches[0].pieces[this.#at];
  }

  get #guide() {
    return /** @type {Guide} */ (this.#open.get(this.#branches[0])?.[this.#at]);
  }

  /** Whether it is not in the template's form. */
  get isBare() {
    return Boolean(this.#branches[0].bare);
  }

  get over() {
    return this.#at === this.#branches[0].pieces.length;
  }

  /** The call, when it is over; null: it can't be read. @returns {Call | null} */
  get call() {
    for (const branch of this.#branches) {
      const call = this.#writer.read(branch, this.#texts);
      if (call) return call;
    }
    return null;
  }

  /** Tokens that may come next. @returns {Uint32Array} */
  mask() {
    const { special } = this.#piece;
    if (special === null) return this.#guide.mask();
    const mask = new Uint32Array(this.#guides.words);
    add(mask, special);
    return mask;
  }

  /** How many tokens its pieces from this one on take at least. @param {number} from */
  #rest(from) {
    const guides = /** @type {(Guide | null)[]} */ (this.#open.get(this.#branches[0])).slice(from);
    return guides.reduce((sum, guide) => sum + (guide ? guide.rest : 1), 0);
  }

  /** How many tokens end it. */
  get rest() {
    return this.#rest(this.#at);
  }

  /** @param {number} left @param {(mask: Uint32Array) => number} sample @returns {number[]} */
  next(left, sample) {
    const { special } = this.#piece;
    if (special !== null) {
      this.#at++;
      return [special];
    }
    const guide = this.#guide;
    const end = this.#branches[0].pieces[this.#at + 1]?.special;
    const ids = guide.next(left - this.#rest(this.#at + 1), sample);
    for (const id of ids) {
      if (id === end && guide.complete) {
        this.#end();
        this.#at++;
      } else this.#bytes.push(this.#guides.machine.token(id));
    }
    if (!this.over && this.#guide === guide) this.#endIfWhole();
    return ids;
  }

  /** Takes a token that was picked before. @param {number} id @returns {boolean}  whether it may come */
  accept(id) {
    const { special } = this.#piece;
    if (special !== null) {
      if (id !== special) return false;
      this.#at++;
      return true;
    }
    if (id === this.#branches[0].pieces[this.#at + 1]?.special && this.#guide.complete) {
      this.#end();
      this.#at++;
      return true;
    }
    const bytes = this.#guides.machine.token(id);
    if (!this.#guide.accept(id)) return false;
    this.#bytes.push(bytes);
    this.#endIfWhole();
    return true;
  }

  /** Takes the text that it begins with. @param {string} text @returns {boolean}  whether it may come */
  feed(text) {
    let rest = text;
    for (let { special } = this.#piece; special !== null && rest; { special } = this.#piece) {
      const fixed = decoder.decode(this.#guides.machine.token(special));
      if (!rest.startsWith(fixed)) return false;
      rest = rest.slice(fixed.length);
      this.#at++;
      if (this.over) return !rest;
    }
    if (!rest) return true;
    const bytes = encoder.encode(rest);
    if (!this.#guide.feed(bytes)) return false;
    this.#bytes.push(bytes);
    this.#endIfWhole();
    return true;
  }

  /** Nothing can follow in this piece, or need to in the last one. */
  #endIfWhole() {
    const isLast = this.#at === this.#branches[0].pieces.length - 1;
    if (this.#guide.complete && (isLast || !this.#guide.continues)) this.#end();
  }

  /** A piece is whole: those tools stay whose call it is of. */
  #end() {
    const length = this.#bytes.reduce((sum, { length: bytes }) => sum + bytes, 0);
    const all = new Uint8Array(length);
    let at = 0;
    for (const bytes of this.#bytes) {
      all.set(bytes, at);
      at += bytes.length;
    }
    const text = decoder.decode(all);
    this.#texts[this.#at] = text;
    this.#bytes = [];
    const fits = this.#branches.filter(({ pieces }) => new RegExp(`^${pieces[this.#at].pattern}$`, 'u').test(text));
    if (fits.length) this.#branches = fits;
    this.#at++;
  }

  close() {
    for (const guide of new Set([...this.#open.values()].flat())) guide?.close();
    this.#open.clear();
  }
}

/** What comes of a reply. @typedef {'reasoning' | 'start' | 'text' | 'format' | 'call' | 'between' | 'over'} Place */

export class Turn {
  #guides;
  #thinking;
  #marks;
  #format;
  #writer;
  #must;
  #many;
  #ids;
  /** @type {Place} */
  #place = 'start';
  /** @type {Writing | null} */
  #writing = null;
  /** One that the model may begin in the place of a format, or behind a call. @type {Writing[]} */
  #offered = [];
  /** Calls that were written, and those of them that the reader has not got. @type {Call[]} */
  #calls = [];
  #told = 0;
  /** Tokens of the step under way that the reader has not got. */
  #unread = 0;
  /** Text that may belong to a call. */
  #held = '';
  /** Whether the answer's text can be no bare call any more: until then all of it is held. */
  #begun = false;
  /** What was shown, by parts. @type {Omit<Part, 'token'>[]} */
  #parts = [];
  #reserved = 0;
  /** Whether the reasoning has just ended: white space may follow. */
  #gap = 0;
  /** Tokens of white space. @type {number[]} */
  #blank = [];
  #hidden = false;
  /** @type {Set<string>} */
  #warnings;

  /**
   * @param {object} parts
   * @param {Guides} parts.guides
   * @param {(text: string) => number[]} parts.ids  tokens of a text, special ones included
   * @param {ReasoningParser | null} parts.thinking
   * @param {[string, string] | null} parts.marks  of the reasoning
   * @param {Guide | null} parts.format  of the answer
   * @param {CallWriter | null} parts.writer  null: no tool may be called
   * @param {boolean} parts.must  the reply is a call
   * @param {boolean} parts.many  calls may follow each other
   */
  constructor({ guides, ids, thinking, marks, format, writer, must, many }) {
    this.#guides = guides;
    this.#ids = ids;
    this.#thinking = thinking;
    this.#marks = marks;
    this.#format = format;
    this.#writer = writer;
    this.#must = must;
    this.#many = many;
    this.#warnings = new Set(format?.warnings);
    if (thinking?.place === 'inside') this.#place = 'reasoning';
    if (marks) this.#blank = ['\n', '\n\n'].flatMap((text) => (ids(text).length === 1 ? ids(text) : []));
  }

  /** What of the format was passed over, and of the parameters of calls that were compiled so far. @returns {string[]} */
  get warnings() {
    return [...this.#warnings];
  }

  /** Whether the answer is free text. */
  get free() {
    return !this.#format && !this.#must;
  }

  /** Whether the text of this step's tokens is not shown. */
  get hides() {
    return this.#hidden;
  }

  /** Compiles what the answer can begin with. GRAMMAR. */
  async prepare() {
    if (this.#writer && !this.free) this.#offered = [await this.#call(0, true)];
  }

  /** @param {number} count @param {boolean} strict */
  #call(count, strict) {
    const writer = /** @type {CallWriter} */ (this.#writer);
    return this.#prepared(writer, writer.branches(count, strict));
  }

  /** @param {CallWriter} writer @param {Branch[]} branches */
  async #prepared(writer, branches) {
    const call = await new Writing(this.#guides, writer, branches).prepare();
    for (const warning of call.warnings) this.#warnings.add(warning);
    return call;
  }

  /** What the text so far must end with, in tokens. */
  get #least() {
    return this.#format?.rest ?? this.#offered[0]?.rest ?? 0;
  }

  /** @param {number} left @param {(mask?: Uint32Array) => number} sample @returns {number[]} */
  next(left, sample) {
    const ids = this.#next(left, sample);
    this.#unread = ids.length;
    return ids;
  }

  /** @param {number} left @param {(mask?: Uint32Array) => number} sample @returns {number[]} */
  #next(left, sample) {
    this.#hidden = false;
    this.#reserved ||= left === Infinity ? MOST : Math.max(this.#least, Math.min(MOST, Math.floor(left * SHARE)));
    switch (this.#place) {
      case 'reasoning':
        return this.#reason(left, sample);
      case 'start':
        return this.#start(left, sample);
      case 'format':
        return /** @type {Guide} */ (this.#format).next(left, sample);
      case 'call':
        return this.#write(left, sample);
      case 'between':
        return this.#between(left, sample);
      default:
        return [sample()];
    }
  }

  /** @param {number} left @param {(mask?: Uint32Array) => number} sample */
  #reason(left, sample) {
    if (this.free) return [sample()];
    const close = this.#ids(/** @type {[string, string]} */ (this.#marks)[1]);
    if (left <= this.#reserved + close.length) return close;
    return [sample(this.#all())];
  }

  /** All tokens but those that end a text. */
  #all() {
    const mask = new Uint32Array(this.#guides.words).fill(0xffffffff);
    for (const id of this.#guides.ends) mask[id >>> 5] &= ~(1 << (id & 31));
    return mask;
  }

  /** @param {number} left @param {(mask?: Uint32Array) => number} sample @returns {number[]} */
  #start(left, sample) {
    if (this.free) {
      this.#place = 'text';
      return this.#next(left, sample);
    }
    const opens =
      this.#thinking?.place === 'before' && left > this.#reserved
        ? this.#ids(/** @type {[string, string]} */ (this.#marks)[0])
        : [];
    const [call] = this.#offered;
    // White space takes no room that the answer needs.
    if (this.#gap && left <= this.#least + 1) this.#gap = 0;
    if (!opens.length && !this.#gap) {
      if (this.#must) return this.#begin(call, left, sample);
      if (!call || left <= this.#least) return this.#answer(left, sample);
    }
    const format = this.#must ? null : this.#format;
    const mask = new Uint32Array(this.#guides.words);
    for (const other of [format?.mask(), call?.mask()]) other?.forEach((word, i) => (mask[i] |= word));
    const own = mask.slice();
    if (opens.length) add(mask, opens[0]);
    if (this.#gap) for (const id of this.#blank) add(mask, id);
    const id = sample(mask);
    if (!has(own, id)) {
      if (id === opens[0]) return opens;
      this.#gap--;
      return [id];
    }
    this.#gap = 0;
    const isFormat = format !== null && (format.accept(id) || (format.complete && this.#guides.ends.includes(id)));
    const isCall = call?.accept(id) ?? false;
    if (isFormat && isCall && !call.over) return [id]; // not decided yet
    if (!isCall) {
      this.#place = 'format';
      this.#leave();
      return [id];
    }
    this.#place = 'call';
    this.#writing = call;
    this.#hide();
    if (call.over) this.#finish(call);
    return [id];
  }

  /** @param {Writing} call @param {number} left @param {(mask?: Uint32Array) => number} sample */
  #begin(call, left, sample) {
    this.#place = 'call';
    this.#writing = call;
    return this.#write(left, sample);
  }

  /** @param {number} left @param {(mask?: Uint32Array) => number} sample @returns {number[]} */
  #answer(left, sample) {
    this.#leave();
    this.#place = 'format';
    return this.#next(left, sample);
  }

  /** What was offered was not begun. */
  #leave() {
    for (const call of this.#offered) call.close();
    this.#offered = [];
  }

  /** What comes of this step, and what was held back, belongs to a call. */
  #hide() {
    this.#hidden = true;
    this.#held = '';
  }

  /** @param {number} left @param {(mask?: Uint32Array) => number} sample */
  #write(left, sample) {
    const writing = /** @type {Writing} */ (this.#writing);
    this.#hide();
    const ids = writing.over ? [] : writing.next(left, sample);
    if (writing.over) this.#finish(writing);
    return ids;
  }

  /** @param {Writing} writing */
  #finish(writing) {
    const { call } = writing;
    if (call) this.#calls.push(call);
    this.#offered = this.#offered.filter((one) => one !== writing);
    writing.close();
    this.#leave();
    this.#writing = null;
    this.#place = call && this.#many && !writing.isBare && this.#writer?.repeats ? 'between' : 'over';
  }

  /** Another call, or the end. @param {number} left @param {(mask?: Uint32Array) => number} sample @returns {number[]} */
  #between(left, sample) {
    this.#hide();
    const mask = new Uint32Array(this.#guides.words);
    for (const call of this.#offered) call.mask().forEach((word, i) => (mask[i] |= word));
    const after = this.#ids(this.#writer?.after ?? '');
    for (const id of after.length ? after.slice(0, 1) : this.#guides.ends) add(mask, id);
    const id = sample(mask);
    const taken = this.#offered.filter((call) => call.accept(id));
    if (!taken.length) {
      this.#place = 'over';
      return after.length ? after : [id];
    }
    for (const call of this.#offered) if (call !== taken[0]) call.close();
    this.#offered = [];
    this.#writing = taken[0];
    this.#place = 'call';
    return [id];
  }

  /** Whether nothing more comes. @param {number} left */
  ended(left) {
    if (this.#place === 'over') return true;
    return this.#place === 'format' && /** @type {Guide} */ (this.#format).ended(left);
  }

  /** A reply without marks, and with its calls. @param {AsyncIterable<Part>} run @returns {AsyncGenerator<Part, void>} */
  async *parts(run) {
    let last = 0;
    for await (const { token, text, logprobs } of run) {
      last = token;
      const read = await this.#read(token, text);
      this.#parts.push(read);
      yield { token, ...read, ...(logprobs && !this.#hidden && { logprobs }) };
    }
    const rest = this.#rest();
    if (!rest.text && !rest.reasoning) return;
    this.#parts.push(rest);
    yield { token: last, ...rest };
  }

  /** What is left when the text has ended. @returns {Omit<Part, 'token'>} */
  #rest() {
    const { text, reasoning } = this.#thinking?.push('', true) ?? { text: '', reasoning: '' };
    const all = this.#held + text;
    this.#held = '';
    return { text: all, ...(reasoning && { reasoning }) };
  }

  /** @param {number} id @param {string} text @returns {Promise<Omit<Part, 'token'>>} */
  async #read(id, text) {
    this.#unread--;
    // A mark may be a special token, which has no text.
    const given = text || (this.#marks?.find((mark) => this.#isToken(mark, id)) ?? '');
    const was = this.#thinking?.place;
    const { text: said, reasoning } = this.#thinking?.push(given, false) ?? { text: given, reasoning: '' };
    if (this.#thinking && was !== this.#thinking.place) this.#turn(said);
    let shown = this.#hidden ? '' : this.#shown(said);
    if (this.#place === 'text' && !this.#hidden) shown = await this.#watch(id, shown);
    if (this.#place === 'between' && !this.#offered.length && !this.#unread) await this.#offer();
    const calls = this.#unread ? [] : this.#calls.slice(this.#told);
    this.#told += calls.length;
    return { text: shown, ...(reasoning && { reasoning }), ...(calls.length && { toolCalls: calls }) };
  }

  /** @param {string} text @param {number} id */
  #isToken(text, id) {
    const ids = this.#ids(text);
    return ids.length === 1 && ids[0] === id;
  }

  /** The reasoning began, or ended. @param {string} said  what already follows it */
  #turn(said) {
    const { place } = /** @type {ReasoningParser} */ (this.#thinking);
    if (place === 'inside') this.#place = 'reasoning';
    else if (this.#place === 'reasoning') {
      this.#place = this.free ? 'text' : 'start';
      this.#gap = said ? 0 : 2;
      // What the last token of the mark brought along belongs to the answer.
      const text = said.trimStart();
      if (!text || this.free) return;
      const bytes = encoder.encode(text);
      if (!this.#must && this.#format?.feed(bytes)) this.#place = 'format';
    }
  }

  /** What is shown of a text while it isn't decided what it belongs to. @param {string} said */
  #shown(said) {
    const all = this.#held + said;
    const undecided = this.#place === 'start' && !this.free && this.#offered.length > 0;
    this.#held = undecided ? all : '';
    return undecided ? '' : all;
  }

  /** Free text, in which a call may begin: what may be one is held back. @param {number} id @param {string} text @returns {Promise<string>} */
  async #watch(id, text) {
    const writer = this.#writer;
    if (!writer) return text;
    const { trigger } = writer;
    if (trigger && this.#isToken(trigger, id))
      return this.#commit(await this.#call(0, false), trigger, text.replace(trigger, ''));
    if (!this.#begun) {
      const bare = writer.isBare(text);
      if (bare === true) return this.#bare(text);
      if (bare === null) {
        this.#held = text;
        return '';
      }
      this.#begun = true;
    }
    const at = trigger ? text.indexOf(trigger) : -1;
    if (at >= 0) return this.#commit(await this.#call(0, false), text.slice(at), text.slice(0, at));
    const hold = trigger ? overlap(text, trigger) : 0;
    this.#held = text.slice(text.length - hold);
    return text.slice(0, text.length - hold);
  }

  /** A bare call goes on as one, if it can. @param {string} text */
  async #bare(text) {
    const writer = /** @type {CallWriter} */ (this.#writer);
    return this.#commit(await this.#prepared(writer, writer.bare()), text, '');
  }

  /** A call has begun, if it can go on from its first words. @param {Writing} call @param {string} begun @param {string} before  what was said before @returns {string}  what is shown */
  #commit(call, begun, before) {
    this.#begun = true;
    if (!call.feed(begun)) {
      call.close();
      return before + begun;
    }
    this.#held = '';
    this.#writing = call;
    this.#place = 'call';
    if (call.over) this.#finish(call);
    return before.trim() || !this.#calls.length ? before : '';
  }

  /** Compiles what may follow a call. */
  async #offer() {
    const strict = await this.#call(this.#calls.length, true);
    this.#offered = this.#writer?.after ? [strict] : [strict, await this.#call(0, true)];
  }

  /** @param {Result} result  of the whole reply @param {number} count  parts that were read @returns {Result} */
  result(result, count) {
    const parts = this.#parts.slice(0, count);
    const reasoning = parts.map((part) => part.reasoning ?? '').join('');
    return {
      ...result,
      text: parts.map(({ text }) => text).join(''),
      ...(reasoning && { reasoning }),
      ...(this.#writer && { toolCalls: parts.flatMap(({ toolCalls = [] }) => toolCalls) }),
      ...(this.#warnings.size > 0 && { warnings: this.warnings }),
    };
  }

  close() {
    this.#format?.close();
    this.#writing?.close();
    this.#leave();
  }
}
