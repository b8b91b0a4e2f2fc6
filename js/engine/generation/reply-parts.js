/**
 * A reply of several sections, each with its own constraint: first the reasoning, then the answer or tool calls. The
 * answer may be constrained to a format. Loaded for replies that may call tools, and for formats of models that reason.
 */
import { onDemand } from '../../shared/errors.js';
import { CallInProgress } from './call-in-progress.js';
import { findCall } from './call-search.js';
import { addToken, addTokens, hasToken, removeToken } from './token-mask.js';

/** @import { ReasoningParser } from '../../api/chat/reasoning.js' */
/** @import { Guide, Grammars } from './grammar-guide.js' */
/** @import { Branch, Call, CallForms } from '../prompt/tool-calls.js' */
/** @import { Part, Result } from '../../shared/types.js' */

/** Tokens that are reserved for the answer after the reasoning: a share of the token limit, and the largest number. */
const [RESERVED_SHARE, MAX_RESERVED] = [1 / 4, 256];

const encoder = new TextEncoder();

/**
 * Section of a reply that is being generated. `start`: the beginning of the reply or of the answer after the reasoning;
 * `text`: free text; `between`: after a call that another one may follow; `complete`: nothing follows.
 * @typedef {'reasoning' | 'start' | 'text' | 'format' | 'call' | 'between' | 'complete'} Section
 */

export class ReplyParts {
  #guides;
  #reasoningParser;
  #marks;
  #format;
  #callForms;
  #mustCall;
  #allowsMany;
  #ids;
  /** @type {Section} */
  #section = 'start';
  /** @type {CallInProgress | null} */
  #currentCall = null;
  /** Calls that the model may start instead of the answer or after another call. @type {CallInProgress[]} */
  #offeredCalls = [];
  /** Complete calls, and the number of them that were passed to the reader. @type {Call[]} */
  #calls = [];
  #reportedCalls = 0;
  /** Number of tokens of the current step that were not passed to the reader. */
  #unreadTokens = 0;
  /** Text that is held back because it may belong to a call. */
  #heldText = '';
  /** Whether the answer has text that can't be a plain JSON call. Until then all of its text is held back. */
  #hasAnswerText = false;
  /** Parts that were passed to the reader. @type {Omit<Part, 'token'>[]} */
  #parts = [];
  /** Number of tokens that the reasoning must leave for the answer. */
  #reservedTokens = 0;
  /** Number of white-space tokens that may still follow the reasoning. */
  #blanksAllowed = 0;
  /** White-space tokens that may follow the reasoning. @type {number[]} */
  #blankTokens = [];
  #isHidden = false;
  /** @type {Set<string>} */
  #warnings;

  /**
   * @param {object} parts
   * @param {Grammars} parts.guides
   * @param {(text: string) => number[]} parts.ids  returns the tokens of a text, in which special tokens are recognised
   * @param {ReasoningParser | null} parts.reasoningParser
   * @param {[string, string] | null} parts.marks  opening and closing mark of the reasoning
   * @param {Guide | null} parts.format  guide for the format of the answer
   * @param {CallForms | null} parts.callForms  null: no tool may be called
   * @param {boolean} parts.mustCall  whether the reply must be a call
   * @param {boolean} parts.allowsMany  whether several calls may follow each other
   */
  constructor({ guides, ids, reasoningParser, marks, format, callForms, mustCall, allowsMany }) {
    this.#guides = guides;
    this.#ids = ids;
    this.#reasoningParser = reasoningParser;
    this.#marks = marks;
    this.#format = format;
    this.#callForms = callForms;
    this.#mustCall = mustCall;
    this.#allowsMany = allowsMany;
    this.#warnings = new Set(format?.warnings);
    if (reasoningParser?.place === 'inside') this.#section = 'reasoning';
    if (marks) this.#blankTokens = ['\n', '\n\n'].flatMap((text) => (ids(text).length === 1 ? ids(text) : []));
  }

  /** Keywords without effect, of the format and of the tool parameters compiled so far. @returns {string[]} */
  get warnings() {
    return [...this.#warnings];
  }

  /** Whether the answer is free text. */
  get isFreeText() {
    return !this.#format && !this.#mustCall;
  }

  /** Whether the text of the current step is hidden. */
  get hidesText() {
    return this.#isHidden;
  }

  /**
   * Compiles the calls that may begin the answer or occur in it, so that an unsupported tool is refused before any text
   * is generated. Throws GRAMMAR.
   */
  async prepare() {
    if (!this.#callForms) return;
    if (!this.isFreeText) this.#offeredCalls = [await this.#prepareCall(0, true)];
    else {
      const testCalls = [
        await this.#prepareCall(0, false),
        await this.#compileCall(this.#callForms, this.#callForms.bare()),
      ];
      for (const call of testCalls) call.close();
      this.#warnings = new Set(this.#format?.warnings);
    }
  }

  /**
   * Compiles a call in the form of the template.
   * @param {number} count  number of calls before it
   * @param {boolean} strict  whether only the exact white space of the template is allowed
   */
  #prepareCall(count, strict) {
    const callForms = /** @type {CallForms} */ (this.#callForms);
    return this.#compileCall(callForms, callForms.branches(count, strict));
  }

  /** @param {CallForms} callForms @param {Branch[]} branches */
  async #compileCall(callForms, branches) {
    const call = await new CallInProgress(this.#guides, callForms, branches).prepare().catch(async (error) => {
      const { explainRefusedTool } = await onDemand(import('../prompt/refused-tool.js'));
      throw await explainRefusedTool(error, branches);
    });
    for (const warning of call.warnings) this.#warnings.add(warning);
    return call;
  }

  /** Smallest number of tokens that complete the answer. */
  get #minTokens() {
    return this.#format?.shortestEnd ?? this.#offeredCalls[0]?.shortestEnd ?? 0;
  }

  /**
   * Returns the next tokens of the reply.
   * @param {number} remaining  tokens until the limit
   * @param {(mask?: Uint32Array) => number} sample  samples a token; without a mask, from all tokens
   * @returns {number[]}
   */
  next(remaining, sample) {
    const ids = this.#nextInSection(remaining, sample);
    this.#unreadTokens = ids.length;
    return ids;
  }

  /** @param {number} remaining @param {(mask?: Uint32Array) => number} sample @returns {number[]} */
  #nextInSection(remaining, sample) {
    this.#isHidden = false;
    this.#reservedTokens ||=
      remaining === Infinity
        ? MAX_RESERVED
        : Math.max(this.#minTokens, Math.min(MAX_RESERVED, Math.floor(remaining * RESERVED_SHARE)));
    switch (this.#section) {
      case 'reasoning':
        return this.#nextInReasoning(remaining, sample);
      case 'start':
        return this.#nextAtStart(remaining, sample);
      case 'format':
        return /** @type {Guide} */ (this.#format).next(remaining, sample);
      case 'call':
        return this.#nextInCall(remaining, sample);
      case 'between':
        return this.#nextBetweenCalls(remaining, sample);
      default:
        return [sample()];
    }
  }

  /** @param {number} remaining @param {(mask?: Uint32Array) => number} sample */
  #nextInReasoning(remaining, sample) {
    if (this.isFreeText) return [sample()];
    const close = this.#ids(/** @type {[string, string]} */ (this.#marks)[1]);
    if (remaining <= this.#reservedTokens + close.length) return close;
    return [sample(this.#maskWithoutEnds())];
  }

  /** Returns a mask of all tokens except those that end a text. */
  #maskWithoutEnds() {
    const mask = new Uint32Array(this.#guides.words).fill(0xffffffff);
    for (const id of this.#guides.endTokens) removeToken(mask, id);
    return mask;
  }

  /** @param {number} remaining @param {(mask?: Uint32Array) => number} sample @returns {number[]} */
  #nextAtStart(remaining, sample) {
    if (this.isFreeText) {
      this.#section = 'text';
      return this.#nextInSection(remaining, sample);
    }
    const openingMark =
      this.#reasoningParser?.place === 'before' && remaining > this.#reservedTokens
        ? this.#ids(/** @type {[string, string]} */ (this.#marks)[0])
        : [];
    const [call] = this.#offeredCalls;
    // White space must not take tokens that the answer needs.
    if (this.#blanksAllowed && remaining <= this.#minTokens + 1) this.#blanksAllowed = 0;
    if (!openingMark.length && !this.#blanksAllowed) {
      if (this.#mustCall) return this.#startCall(call, remaining, sample);
      if (!call || remaining <= this.#minTokens) return this.#startAnswer(remaining, sample);
    }
    const format = this.#mustCall ? null : this.#format;
    const mask = new Uint32Array(this.#guides.words);
    for (const otherMask of [format?.mask(), call?.mask()]) if (otherMask) addTokens(mask, otherMask);
    const answerMask = mask.slice();
    if (openingMark.length) addToken(mask, openingMark[0]);
    if (this.#blanksAllowed) for (const id of this.#blankTokens) addToken(mask, id);
    const id = sample(mask);
    if (!hasToken(answerMask, id)) {
      if (id === openingMark[0]) return openingMark;
      this.#blanksAllowed--;
      return [id];
    }
    this.#blanksAllowed = 0;
    const isFormat = format !== null && (format.accept(id) || (format.complete && this.#guides.endTokens.includes(id)));
    const isCall = call?.accept(id) ?? false;
    if (isFormat && isCall && !call.isComplete) return [id]; // undecided between format and call
    if (!isCall) {
      this.#section = 'format';
      this.#dropOffered();
      return [id];
    }
    this.#section = 'call';
    this.#currentCall = call;
    this.#hideStep();
    if (call.isComplete) this.#finishCall(call);
    return [id];
  }

  /** @param {CallInProgress} call @param {number} remaining @param {(mask?: Uint32Array) => number} sample */
  #startCall(call, remaining, sample) {
    this.#section = 'call';
    this.#currentCall = call;
    return this.#nextInCall(remaining, sample);
  }

  /** @param {number} remaining @param {(mask?: Uint32Array) => number} sample @returns {number[]} */
  #startAnswer(remaining, sample) {
    this.#dropOffered();
    this.#section = 'format';
    return this.#nextInSection(remaining, sample);
  }

  /** Drops calls that the model has not started. */
  #dropOffered() {
    for (const call of this.#offeredCalls) call.close();
    this.#offeredCalls = [];
  }

  /** Hides the text of this step and the held-back text, because they belong to a call. */
  #hideStep() {
    this.#isHidden = true;
    this.#heldText = '';
  }

  /** @param {number} remaining @param {(mask?: Uint32Array) => number} sample */
  #nextInCall(remaining, sample) {
    const current = /** @type {CallInProgress} */ (this.#currentCall);
    this.#hideStep();
    // If calls are optional, the token limit does not shorten a call: that could turn it into a call of another tool.
    const ids = current.isComplete ? [] : current.next(this.#mustCall ? remaining : Infinity, sample);
    if (current.isComplete) this.#finishCall(current);
    return ids;
  }

  /** @param {CallInProgress} finished */
  #finishCall(finished) {
    const { call } = finished;
    if (call) this.#calls.push(call);
    this.#offeredCalls = this.#offeredCalls.filter((offered) => offered !== finished);
    finished.close();
    this.#dropOffered();
    this.#currentCall = null;
    this.#section = call && this.#allowsMany && !finished.isBare && this.#callForms?.repeats ? 'between' : 'complete';
  }

  /**
   * Samples the first token of another call, or the end of the reply.
   * @param {number} remaining @param {(mask?: Uint32Array) => number} sample @returns {number[]}
   */
  #nextBetweenCalls(remaining, sample) {
    this.#hideStep();
    const mask = new Uint32Array(this.#guides.words);
    for (const call of this.#offeredCalls) addTokens(mask, call.mask());
    const endTokens = this.#ids(this.#callForms?.after ?? '');
    for (const id of endTokens.length ? endTokens.slice(0, 1) : this.#guides.endTokens) addToken(mask, id);
    const id = sample(mask);
    const accepted = this.#offeredCalls.filter((call) => call.accept(id));
    if (!accepted.length) {
      this.#section = 'complete';
      return endTokens.length ? endTokens : [id];
    }
    for (const call of this.#offeredCalls) if (call !== accepted[0]) call.close();
    this.#offeredCalls = [];
    this.#currentCall = accepted[0];
    this.#section = 'call';
    return [id];
  }

  /** Returns whether the reply is complete. @param {number} remaining  tokens until the limit */
  hasEnded(remaining) {
    if (this.#section === 'complete') return true;
    return this.#section === 'format' && /** @type {Guide} */ (this.#format).hasEnded(remaining);
  }

  /**
   * Separates the text of a generation into text, reasoning and tool calls. Yields parts without think marks.
   * @param {AsyncIterable<Part>} generation @returns {AsyncGenerator<Part, void>}
   */
  async *parts(generation) {
    let lastToken = 0;
    for await (const { token, text, logprobs } of generation) {
      lastToken = token;
      const fields = await this.#separatePart(token, text);
      this.#parts.push(fields);
      yield { token, ...fields, ...(logprobs && !this.#isHidden && { logprobs }) };
    }
    const lastText = this.#flushHeld();
    if (!lastText.text && !lastText.reasoning) return;
    this.#parts.push(lastText);
    yield { token: lastToken, ...lastText };
  }

  /** Returns the held text at the end of the reply. @returns {Omit<Part, 'token'>} */
  #flushHeld() {
    const { text, reasoning } = this.#reasoningParser?.push('', true) ?? { text: '', reasoning: '' };
    const available = this.#heldText + text;
    this.#heldText = '';
    return { text: available, ...(reasoning && { reasoning }) };
  }

  /**
   * Returns the visible text, the reasoning and the calls of a token.
   * @param {number} id @param {string} text @returns {Promise<Omit<Part, 'token'>>}
   */
  async #separatePart(id, text) {
    this.#unreadTokens--;
    const raw = this.#reasoningParser?.textOf(id, text) ?? text;
    const placeBefore = this.#reasoningParser?.place;
    const { text: answer, reasoning } = this.#reasoningParser?.push(raw, false) ?? { text: raw, reasoning: '' };
    if (this.#reasoningParser && placeBefore !== this.#reasoningParser.place) this.#enterSection(answer);
    let visible = this.#isHidden ? '' : this.#visibleText(answer);
    if (this.#section === 'text' && !this.#isHidden) visible = await this.#detectCall(id, visible);
    if (this.#section === 'between' && !this.#offeredCalls.length && !this.#unreadTokens) await this.#offerCalls();
    const calls = this.#unreadTokens ? [] : this.#calls.slice(this.#reportedCalls);
    this.#reportedCalls += calls.length;
    return { text: visible, ...(reasoning && { reasoning }), ...(calls.length && { toolCalls: calls }) };
  }

  /** Returns whether a text is the text of this one token. @param {string} text @param {number} id */
  #isToken(text, id) {
    const ids = this.#ids(text);
    return ids.length === 1 && ids[0] === id;
  }

  /**
   * Changes the section after the reasoning has begun or ended.
   * @param {string} answerText  text that follows the closing mark
   */
  #enterSection(answerText) {
    const { place } = /** @type {ReasoningParser} */ (this.#reasoningParser);
    if (place === 'inside') this.#section = 'reasoning';
    else if (this.#section === 'reasoning') {
      this.#section = this.isFreeText ? 'text' : 'start';
      this.#blanksAllowed = answerText ? 0 : 2;
      // Text after the mark in the last token of the mark belongs to the answer.
      const text = answerText.trimStart();
      if (!text || this.isFreeText) return;
      const bytes = encoder.encode(text);
      if (!this.#mustCall && this.#format?.feed(bytes)) this.#section = 'format';
    }
  }

  /** Returns the held text and `text`; holds both back while they may belong to a call. @param {string} text */
  #visibleText(text) {
    const available = this.#heldText + text;
    const undecided = this.#section === 'start' && !this.isFreeText && this.#offeredCalls.length > 0;
    this.#heldText = undecided ? available : '';
    return undecided ? '' : available;
  }

  /**
   * Looks for the beginning of a call in free text. Returns the text to show; text that may belong to a call is held
   * back.
   * @param {number} id @param {string} text @returns {Promise<string>}
   */
  async #detectCall(id, text) {
    const callForms = this.#callForms;
    if (!callForms) return text;
    const endsInTrigger = callForms.trigger !== '' && this.#isToken(callForms.trigger, id);
    const search = findCall(text, callForms, endsInTrigger, !this.#hasAnswerText);
    this.#heldText = search.held;
    this.#hasAnswerText ||= search.isBare !== null;
    if (!search.beginning) return search.text;
    const call = search.isBare ? this.#compileCall(callForms, callForms.bare()) : this.#prepareCall(0, false);
    return this.#startDetectedCall(await call, search.beginning, search.text);
  }

  /**
   * Starts a call whose beginning was found in free text. If the grammar does not allow the beginning, it remains text.
   * @param {CallInProgress} call @param {string} beginning  text of the call so far
   * @param {string} textBefore  text before the call @returns {string}  text to show
   */
  #startDetectedCall(call, beginning, textBefore) {
    if (!call.feed(beginning)) {
      call.close();
      return textBefore + beginning;
    }
    this.#heldText = '';
    this.#currentCall = call;
    this.#section = 'call';
    if (call.isComplete) this.#finishCall(call);
    return textBefore.trim() || !this.#calls.length ? textBefore : '';
  }

  /** Compiles the calls that may follow a call. */
  async #offerCalls() {
    const nextCall = await this.#prepareCall(this.#calls.length, true);
    this.#offeredCalls = this.#callForms?.after ? [nextCall] : [nextCall, await this.#prepareCall(0, true)];
  }

  /**
   * Returns the result with the text, reasoning and tool calls of the parts that were read.
   * @param {Result} result  result of the generation @param {number} readCount  number of parts that were read
   * @returns {Result}
   */
  result(result, readCount) {
    const parts = this.#parts.slice(0, readCount);
    const reasoning = parts.map((part) => part.reasoning ?? '').join('');
    return {
      ...result,
      text: parts.map(({ text }) => text).join(''),
      ...(reasoning && { reasoning }),
      ...(this.#callForms && { toolCalls: parts.flatMap(({ toolCalls = [] }) => toolCalls) }),
      ...(this.#warnings.size > 0 && { warnings: this.warnings }),
    };
  }

  close() {
    this.#format?.close();
    this.#currentCall?.close();
    this.#dropOffered();
  }
}
