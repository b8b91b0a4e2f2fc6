/**
 * What a tab remembers of what it has asked for, so that another leader can make it again: its objects have numbers that last, calls
 * that were under way are sent again, and the tokens of a session are known whenever a call of it has ended.
 */
import { Connection } from '../port/proxy.js';
import { TABLE } from '../port/methods.js';
import { deferred, unlessAborted } from '../../shared/async.js';
import { BqError, unpackError } from '../../shared/errors.js';
import { emit, Events, FORWARDED_EVENTS } from '../../shared/events.js';
import { emptyResult } from '../../shared/generation.js';
import { PROTOCOL } from '../../shared/protocol.js';

/** @import { Hears } from '../port/proxy.js' */
/** @import { EngineInfo, EngineStore, Part, Result } from '../../shared/types.js' */

/** @typedef {{ on: number | string, method: string, args?: any[], options?: any, flag?: Int32Array | null }} Request */
/** What a leader has made: its number there. @typedef {{ on: number | string, info?: any }} Made */

/**
 * A call that has not ended.
 * @typedef {object} Call
 * @property {Request} request
 * @property {import('../port/methods.js').Row | undefined} row
 * @property {Hears} hears
 * @property {{ connection: Connection, id: number, on: number | string } | null} sent
 * @property {Part[]} parts   that have come of a generation
 * @property {number} read    of these, when it was aborted
 * @property {number} losses  leaders that went away amid it
 * @property {AbortController} life  of a generation: aborted when it is no longer wanted
 * @property {Thing | null} made     what came of it before its end
 * @property {import('../../shared/async.js').Deferred<Made> | null} remade
 */

/**
 * An object of this tab.
 * @typedef {object} Thing
 * @property {string} kind
 * @property {number | string} parent
 * @property {number | string | null} origin  the session that it was forked from
 * @property {Request} request  that makes it
 * @property {any} info         as it was first
 * @property {Promise<Made> | null} there  at the leader; null: not yet
 * @property {number} losses    leaders that went away as it was made again
 * @property {number[]} tokens  of a session
 * @property {Promise<unknown> | null} recalled  the leader's session has them; null: not yet
 * @property {any[][]} states   prompt caches that a model was given
 */

/** So many leaders may be lost amid a call: one that they die of must not end all tabs. */
const MOST_LOSSES = 3;
/** Calls of a session that change its tokens. */
const CHANGES = ['generate', 'continue', 'choose', 'append', 'truncate', 'restore'];
/** What an engine keeps to until it is told something else. @type {Record<string, string>} */
const WISHES = { pause: 'pause', resume: 'pause', setPace: 'pace' };

/** Whether it matters what a session's tokens are. @param {Request} request */
const goesOn = ({ method, args = [] }) =>
  method === 'choose' ? args[0].length === 0 : !['generate', 'restore', 'trace'].includes(method);

/** @param {string} why @param {Call} call */
const restarted = (why, { parts }) =>
  new BqError('RESTARTED', why, {
    hint: 'ask again: details.text is what had come of it',
    details: { text: parts.map(({ text }) => text).join(''), tokens: parts.map(({ token }) => token) },
  });

/** What came of a generation that is no longer wanted while nobody computes it. @param {Call} call @returns {Result} */
const leftOff = ({ parts: received, read, request }) => {
  const parts = received.slice(0, read);
  const reasoning = parts.map((part) => part.reasoning ?? '').join('');
  const result = emptyResult(request.options.seed, 0);
  result.tokens = parts.map(({ token }) => token);
  result.text = parts.map(({ text }) => text).join('');
  if (reasoning) result.reasoning = reasoning;
  result.usage.completionTokens = result.usage.totalTokens = parts.length;
  return result;
};

/** Closes what a leader has made; one that is gone has nothing to close. @param {Connection} connection @param {Made} made */
async function closed(connection, { on }) {
  try {
    await connection.begin({ on, method: 'close', args: [] }).end;
  } catch {}
}

/** Calls of one tab, over whatever leads to the engine: a Connection for the proxies of port/remote.js. */
export class Kept {
  events = new Events();
  /** What was last said of the engine. @type {{ info: EngineInfo, store: Pick<EngineStore, 'backend' | 'reason'> | null } | null} */
  opened = null;
  /** A leader is needed. */
  onWant = () => {};
  /** The way to the leader broke. */
  onLost = () => {};
  /** @type {Connection | null} */
  #connection = null;
  /** One that has not answered yet. @type {Connection | null} */
  #opening = null;
  #next = deferred();
  /** @type {Map<number, Call>} */
  #calls = new Map();
  /** @type {Map<number | string, Thing>} */
  #things = new Map();
  #last = 0;
  /** @type {Error | null} */
  #closed = null;
  /** By what they are about. @type {Map<string, Request>} */
  #wishes = new Map();

  get attached() {
    return Boolean(this.#connection ?? this.#opening);
  }

  /** Whether anybody waits for the leader. */
  get waits() {
    return !this.#closed && (this.#calls.size > 0 || this.#opening !== null || this.opened === null);
  }

  /** Settles when there is a leader; or why there is none. @returns {Promise<void>} */
  async connected() {
    if (this.#connection) return;
    const { promise } = this.#next;
    this.onWant();
    await promise;
  }

  /** A port to the leader. @param {any} port */
  async attach(port) {
    const connection = new Connection(port);
    this.#opening = connection;
    for (const type of FORWARDED_EVENTS)
      connection.events.addEventListener(type, (event) => emit(this.events, type, /** @type {any} */ (event).detail));
    connection.events.addEventListener(
      'threads',
      (event) => this.opened && Object.assign(this.opened.info, /** @type {any} */ (event).detail),
    );
    connection.events.addEventListener('died', () => this.#is(connection) && this.onLost());
    try {
      const request = { on: 0, method: 'open', args: [{ protocol: PROTOCOL, options: {} }] };
      const opened = await connection.begin(request).end;
      if (!this.#is(connection)) return;
      const again = this.opened !== null;
      this.opened = opened;
      this.#opening = null;
      this.#connection = connection;
      this.#next.resolve(undefined);
      if (again) this.#restore(connection);
    } catch (error) {
      if (!this.#is(connection)) return;
      this.fail(error);
      this.onLost();
    }
  }

  /** Whoever waits hears why there is no leader. @param {unknown} error */
  fail(error) {
    this.#next.reject(error);
    this.#next = deferred();
    if (this.opened) emit(this.events, 'died', { error });
  }

  /** Whether it is still the way to the leader. @param {Connection} connection */
  #is(connection) {
    return connection === this.#connection || connection === this.#opening;
  }

  /** What there was, at a new leader. @param {Connection} connection */
  #restore(connection) {
    for (const request of this.#wishes.values()) connection.begin(request).end.catch(() => {});
    // Sessions follow when something is asked of them.
    for (const [on, { kind, losses }] of this.#things) if (kind === 'model' && !losses) this.#at(on).catch(() => {});
    emit(this.events, 'restarted');
  }

  /** There is no leader now, or another one. */
  lost() {
    const connection = this.#connection ?? this.#opening;
    if (!connection) return;
    if (this.#connection) this.#next = deferred();
    this.#connection = this.#opening = null;
    for (const thing of this.#things.values()) thing.there = thing.recalled = null;
    for (const call of this.#calls.values()) {
      if (!call.made) continue;
      // The call itself makes it again.
      const { made } = call;
      const remade = deferred();
      call.remade = remade;
      made.there = remade.promise;
      remade.promise.catch(() => {
        if (made.there === remade.promise) made.there = null;
      });
    }
    void connection.close();
    if (this.waits) this.onWant();
  }

  /** No more calls. */
  close() {
    this.#closed = new BqError('CLOSED', 'the engine was closed');
    this.#next.reject(this.#closed);
    this.lost();
  }

  /** @param {Request} request @param {Hears} [hears] @returns {{ id: number, end: Promise<any> }} */
  begin(request, hears = {}) {
    const { method, on } = request;
    if (this.#closed) throw this.#closed;
    hears.signal?.throwIfAborted();
    const id = ++this.#last;
    if (method === 'close') return { id, end: this.#close(on) };
    if (on === 0 && WISHES[method]) this.#wishes.set(WISHES[method], request);
    const kind = on === 0 ? 'engine' : on === 'store' ? 'store' : this.#things.get(on)?.kind;
    const row = kind ? TABLE[kind][method] : undefined;
    // Whoever computes it again gets the same tokens.
    const seed = Math.floor(Math.random() * 2 ** 53);
    /** @type {Call} */
    const call = {
      request: row?.stream ? { ...request, options: { seed, ...request.options } } : request,
      row,
      hears,
      sent: null,
      parts: [],
      read: Infinity,
      losses: 0,
      life: new AbortController(),
      made: null,
      remade: null,
    };
    this.#calls.set(id, call);
    const end = this.#run(call).finally(() => this.#calls.delete(id));
    end.catch((error) => call.remade?.reject(error));
    this.onWant();
    return { id, end };
  }

  /** Tells the leader something about a call. @param {any} message */
  tell({ id, ...what }) {
    const call = this.#calls.get(id);
    if (!call) return;
    call.sent?.connection.tell({ id: call.sent.id, ...what });
    if (!what.abort) return;
    call.read = what.read ?? Infinity;
    call.life.abort(unpackError(what.abort));
  }

  /** @param {number | string} on */
  async #close(on) {
    const there = this.#things.get(on)?.there;
    this.#forget(on);
    const connection = this.#connection;
    const made = await there?.catch(() => null);
    if (connection && made) await closed(connection, made);
  }

  /** @param {number | string} on */
  #forget(on) {
    this.#things.delete(on);
    for (const [below, { parent }] of this.#things) if (parent === on) this.#forget(below);
  }

  /** @param {Call} call @returns {Promise<any>} */
  async #run(call) {
    const { signal } = call.hears;
    const over = call.life.signal;
    for (;;) {
      const connection = this.#connection;
      try {
        if (over.aborted) return leftOff(call);
        if (connection) return await this.#send(call, connection);
        await unlessAborted(unlessAborted(this.connected(), signal), over);
      } catch (error) {
        if (this.#closed) throw this.#closed;
        signal?.throwIfAborted();
        if (over.aborted && !call.sent) return leftOff(call);
        if (!connection || this.#is(connection)) throw error;
        call.sent = null;
        if (over.aborted) return leftOff(call);
        if (call.parts.length && call.request.options.deadline !== undefined)
          throw restarted('the tab that computed it is gone, and with it the time that it was to take', call);
        if (++call.losses >= MOST_LOSSES) throw restarted(`${call.losses} tabs that computed it are gone`, call);
      }
    }
  }

  /** @param {Call} call @param {Connection} connection @returns {Promise<any>} */
  async #send(call, connection) {
    const { request, row, hears } = call;
    const { on, method, args } = request;
    const thing = this.#things.get(on);
    const session = thing?.kind === 'session' ? thing : null;
    const ready = async () => {
      const there = await this.#at(on);
      if (session && goesOn(request)) await this.#recall(session, connection, there);
      return { on: there.on, options: await this.#known(request.options) };
    };
    const made = await unlessAborted(unlessAborted(ready(), hears.signal), call.life.signal);
    const fresh = session && !session.recalled;
    let seen = 0;
    let differs = false;
    const { id, end } = connection.begin(
      { ...made, method, args },
      {
        ...hears,
        onPart: (part) => {
          if ('sync' in part) return hears.onPart?.(part);
          const known = call.parts[seen++];
          if (!known) {
            call.parts.push(part);
            return hears.onPart?.(part);
          }
          // It has come before, from another leader.
          differs ||= known.token !== part.token || known.text !== part.text;
          const more = differs ? { abort: { name: 'AbortError', message: 'it differs' } } : { credit: 1 };
          return connection.tell({ id, ...more });
        },
        onMade: (told) => hears.onMade?.(this.#made(call, told)),
      },
    );
    call.sent = { connection, id, on: made.on };
    const changes = session !== null && CHANGES.includes(method);
    // Of a session that is empty as yet, the tokens that are known stay.
    const ok = await end.catch(async (error) => {
      if (changes && !fresh) await this.#learn(session, connection, made.on);
      throw error;
    });
    if (differs) throw restarted('what was computed again differs from what had come', call);
    if (changes) {
      const { adapter } = request.options ?? {};
      if (adapter !== undefined)
        session.request = { ...session.request, options: { ...session.request.options, adapter } };
      session.recalled = Promise.resolve();
      await this.#learn(session, connection, made.on);
    }
    if (method === 'loadPromptCache' && thing && args)
      thing.states = [...thing.states.filter(([state]) => state !== args[0]), args].slice(-thing.info.sessions);
    return row?.makes && ok ? { made: this.#made(call, ok.made) } : ok;
  }

  /** What a session's tokens are now. It was closed: nobody asks. @param {Thing} session @param {Connection} connection @param {number | string} on */
  async #learn(session, connection, on) {
    try {
      session.tokens = await connection.begin({ on, method: 'tokens', args: [] }).end;
    } catch (error) {
      if (!this.#is(connection)) throw error;
    }
  }

  /** What came of a call, under a number that lasts. @param {Call} call @param {Made} made */
  #made(call, made) {
    if (call.made) {
      call.made.there = Promise.resolve(made);
      call.remade?.resolve(made);
      return { on: 0, info: call.made.info }; // nobody listens for it any more
    }
    const { request, row } = call;
    const from = this.#things.get(request.on);
    const on = ++this.#last;
    const fork = from?.kind === 'session';
    /** @type {Thing} */
    const thing = {
      kind: String(row?.makes),
      parent: fork ? from.parent : request.on,
      origin: fork ? request.on : null,
      request: fork ? from.request : request,
      info: made.info?.id ? { ...made.info, id: `shared-${on}` } : made.info,
      there: Promise.resolve(made),
      losses: 0,
      tokens: fork ? from.tokens : [],
      recalled: Promise.resolve(),
      states: [],
    };
    call.made = thing;
    this.#things.set(on, thing);
    return { on, info: thing.info };
  }

  /** An object at the leader, made again if need be. @param {number | string} on @returns {Promise<Made>} */
  #at(on) {
    if (on === 0 || on === 'store') return Promise.resolve({ on });
    const thing = this.#things.get(on);
    if (!thing) return Promise.reject(new BqError('CLOSED', 'the model or session was closed'));
    if (!thing.there) {
      const made = this.#make(on, thing);
      thing.there = made;
      made.catch(() => {
        if (thing.there === made) thing.there = null;
      });
    }
    return thing.there;
  }

  /** @param {number | string} on @param {Thing} thing @returns {Promise<Made>} */
  async #make(on, thing) {
    const connection = /** @type {Connection} */ (this.#connection);
    const origin = thing.origin === null ? undefined : this.#things.get(thing.origin);
    const above = await this.#at(origin ? /** @type {number} */ (thing.origin) : thing.parent);
    if (origin) await this.#recall(origin, connection, above);
    const { method, args, options } = origin ? { method: 'fork', args: [], options: undefined } : thing.request;
    const known = await this.#known(options);
    /** @type {Made} */
    const made = await new Promise((resolve, reject) => {
      const request = { on: above.on, method, args, options: known };
      connection.begin(request, { onMade: resolve }).end.then((ok) => ok && resolve(ok.made), reject);
    }).catch((error) => {
      if (!this.#is(connection)) thing.losses++;
      throw error;
    });
    for (const state of thing.states)
      await connection.begin({ on: made.on, method: 'loadPromptCache', args: state }).end.catch(() => {}); // it was for speed
    if (!this.#things.has(on)) void closed(connection, made);
    return made;
  }

  /** A session that was made again has the tokens that it had. @param {Thing} session @param {Connection} connection @param {Made} there */
  #recall(session, connection, { on }) {
    if (!session.recalled) {
      const { tokens, parent, request } = session;
      const context = request.options?.contextTokens ?? this.#things.get(parent)?.info.contextTokens;
      const args = [Uint32Array.from(tokens.slice(0, context))];
      const recalled = tokens.length
        ? connection.begin({ on, method: 'generate', args, options: { maxTokens: 0 } }).end
        : Promise.resolve();
      session.recalled = recalled;
      recalled.catch(() => {
        if (session.recalled === recalled) session.recalled = null;
      });
    }
    return session.recalled;
  }

  /** Options as the leader knows them: an adapter, or a draft model, by its name there. @param {any} options */
  async #known(options) {
    const { adapter, speculate } = options ?? {};
    const known = async (/** @type {string} */ id) => {
      for (const [on, { info }] of this.#things) if (info?.id === id) return (await this.#at(on)).info.id;
      return id;
    };
    if (adapter) options = { ...options, adapter: await known(adapter) };
    if (speculate?.model) options = { ...options, speculate: { ...speculate, model: await known(speculate.model) } };
    return options;
  }
}
