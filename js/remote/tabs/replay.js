/**
 * Records the calls of a tab, so that they can be replayed at another leader. Objects keep their numbers, unfinished
 * calls are sent again, and the tokens of a session are recorded after each of its calls.
 */
import { Connection } from '../port/proxy.js';
import { TABLE } from '../port/methods.js';
import { deferred, unlessAborted } from '../../shared/async.js';
import { BqError, unpackError } from '../../shared/errors.js';
import { emit, Events, FORWARDED_EVENTS } from '../../shared/events.js';
import { emptyResult } from '../../shared/generation.js';
import { PROTOCOL } from '../../shared/protocol.js';

/** @import { CallHandlers } from '../port/proxy.js' */
/** @import { EngineInfo, EngineStore, Part, Result } from '../../shared/types.js' */

/**
 * @typedef {{ kind?: keyof typeof TABLE, target: number | string, method: string, args?: any[], options?: any,
 *   flag?: Int32Array | null }} Request  `kind`: kind of the object
 */
/**
 * Reference to an object of the leader. `target`: its number there.
 * @typedef {{ target: number | string, info?: any }} Handle
 */

/**
 * A call that has not ended.
 * @typedef {object} Call
 * @property {Request} request
 * @property {import('../port/methods.js').Row | undefined} row
 * @property {CallHandlers} handlers
 * @property {{ connection: Connection, id: number, target: number | string } | null} sentCall
 * @property {Part[]} parts   parts of a generation so far
 * @property {number} readCount    number of parts that were read when the generation was aborted; Infinity before that
 * @property {number} lostLeaders  number of leaders that were lost during the call
 * @property {AbortController} lifetime  aborts when the caller aborts a generation
 * @property {TabObject | null} object     object that the call has created before its end
 * @property {import('../../shared/async.js').Deferred<Handle> | null} recreation  handle of that object at the next
 *   leader, where the call is sent again
 */

/**
 * An object of this tab.
 * @typedef {object} TabObject
 * @property {string} kind
 * @property {number | string} parent
 * @property {number | string | null} origin  the session that it was forked from, or null
 * @property {Request} request  request that creates the object
 * @property {any} info         info of the object at the first leader
 * @property {Promise<Handle> | null} handle  handle of the object at the current leader; null before it is created
 *   there
 * @property {number} lostLeaders    number of leaders that were lost while the object was created again
 * @property {number[]} tokens  tokens of a session
 * @property {Promise<unknown> | null} sequenceReady  settles when the leader's session has these tokens; null before
 *   they are requested
 * @property {any[][]} promptCaches   arguments of `loadPromptCache` of a model
 */

/**
 * Number of lost leaders after which a call fails. It is limited because a call may itself crash each leader, one tab
 * after another.
 */
const MAX_LOST_LEADERS = 3;
/** Methods of a session that change its tokens. */
const TOKEN_CALLS = ['generate', 'continue', 'choose', 'append', 'truncate', 'restore'];
/**
 * Methods of the engine with a lasting effect, by the value that they set. The last call for each value is replayed at
 * a new leader.
 * @type {Record<string, string>}
 */
const STICKY_CALLS = { pause: 'pause', resume: 'pause', setPace: 'pace' };

/** Whether the result of a call depends on the tokens of the session. @param {Request} request */
const dependsOnTokens = ({ method, args = [] }) =>
  method === 'choose' ? args[0].length === 0 : !['generate', 'restore', 'trace'].includes(method);

/** Creates the error RESTARTED of a generation. @param {string} message @param {Call} call */
const restartedError = (message, { parts }) =>
  new BqError('RESTARTED', message, {
    hint: 'repeat the call; details.text holds the text so far',
    details: { text: parts.map(({ text }) => text).join(''), tokens: parts.map(({ token }) => token) },
  });

/** Returns the result of a generation that is aborted while there is no leader. @param {Call} call @returns {Result} */
const abortedResult = ({ parts: allParts, readCount, request }) => {
  const parts = allParts.slice(0, readCount);
  const reasoning = parts.map((part) => part.reasoning ?? '').join('');
  const result = emptyResult(request.options.seed, 0);
  result.tokens = parts.map(({ token }) => token);
  result.text = parts.map(({ text }) => text).join('');
  if (reasoning) result.reasoning = reasoning;
  result.usage.completionTokens = result.usage.totalTokens = parts.length;
  return result;
};

/**
 * Closes an object of the leader. Errors are ignored, because the objects of a lost leader are closed anyway.
 * @param {Connection} connection
 * @param {Handle} handle
 */
async function closeObject(connection, { target }) {
  try {
    await connection.begin({ target, method: 'close', args: [] }).end;
  } catch {}
}

/** Sends the calls of one tab to successive leaders. It has the interface of Connection in port/proxy.js. */
export class ReplayConnection {
  events = new Events();
  /**
   * Latest info of the engine; null before the first leader has answered.
   * @type {{ info: EngineInfo, store: Pick<EngineStore, 'backend' | 'reason'> | null } | null}
   */
  opened = null;
  /** Called when calls wait for a leader. */
  onLeaderNeeded = () => {};
  /** Called when the connection to the leader has failed. */
  onConnectionLost = () => {};
  /** @type {Connection | null} */
  #connection = null;
  /** A connection whose leader has not answered yet. @type {Connection | null} */
  #opening = null;
  #nextLeader = deferred();
  /** @type {Map<number, Call>} */
  #calls = new Map();
  /** @type {Map<number | string, TabObject>} */
  #objects = new Map();
  #lastId = 0;
  /** @type {Error | null} */
  #closedError = null;
  /** Latest requests of STICKY_CALLS, by the value that they set. @type {Map<string, Request>} */
  #stickyCalls = new Map();

  get attached() {
    return Boolean(this.#connection ?? this.#opening);
  }

  /** Whether a call waits for the leader. */
  get isWaiting() {
    return !this.#closedError && (this.#calls.size > 0 || this.#opening !== null || this.opened === null);
  }

  /** Waits for a connection to a leader. Rejects if no tab can create an engine. @returns {Promise<void>} */
  async connected() {
    if (this.#connection) return;
    const { promise } = this.#nextLeader;
    this.onLeaderNeeded();
    await promise;
  }

  /** Connects to the leader over a port. @param {any} port */
  async attach(port) {
    const connection = new Connection(port);
    this.#opening = connection;
    for (const type of FORWARDED_EVENTS)
      connection.events.addEventListener(type, (event) => emit(this.events, type, /** @type {any} */ (event).detail));
    connection.events.addEventListener(
      'threads',
      (event) => this.opened && Object.assign(this.opened.info, /** @type {any} */ (event).detail),
    );
    connection.events.addEventListener('died', () => this.#isCurrent(connection) && this.onConnectionLost());
    try {
      const request = { target: 0, method: 'open', args: [{ protocol: PROTOCOL, options: {} }] };
      const opened = await connection.begin(request).end;
      if (!this.#isCurrent(connection)) return;
      const isRestart = this.opened !== null;
      this.opened = opened;
      this.#opening = null;
      this.#connection = connection;
      this.#nextLeader.resolve(undefined);
      if (isRestart) this.#restore(connection);
    } catch (error) {
      if (!this.#isCurrent(connection)) return;
      this.fail(error);
      this.onConnectionLost();
    }
  }

  /** Rejects calls that wait for a leader. @param {unknown} error */
  fail(error) {
    this.#nextLeader.reject(error);
    this.#nextLeader = deferred();
    if (this.opened) emit(this.events, 'died', { error });
  }

  /** Whether a connection is still the connection to the leader. @param {Connection} connection */
  #isCurrent(connection) {
    return connection === this.#connection || connection === this.#opening;
  }

  /** Creates the objects of this tab at a new leader. @param {Connection} connection */
  #restore(connection) {
    for (const request of this.#stickyCalls.values()) connection.begin(request).end.catch(() => {});
    // Sessions are created again with their next call.
    for (const [target, { kind, lostLeaders }] of this.#objects)
      if (kind === 'model' && !lostLeaders) this.#resolveObject(target).catch(() => {});
    emit(this.events, 'restarted');
  }

  /** Closes the connection, because the leader was lost or replaced. */
  detach() {
    const connection = this.#connection ?? this.#opening;
    if (!connection) return;
    if (this.#connection) this.#nextLeader = deferred();
    this.#connection = this.#opening = null;
    for (const tabObject of this.#objects.values()) tabObject.handle = tabObject.sequenceReady = null;
    for (const call of this.#calls.values()) {
      // A call that has created an object before its end is sent again, which creates the object again.
      const { object } = call;
      if (!object) continue;
      const recreation = deferred();
      call.recreation = recreation;
      object.handle = recreation.promise;
      recreation.promise.catch(() => {
        if (object.handle === recreation.promise) object.handle = null;
      });
    }
    void connection.close();
    if (this.isWaiting) this.onLeaderNeeded();
  }

  /** Rejects pending and later calls. */
  close() {
    this.#closedError = new BqError('CLOSED', 'the engine was closed');
    this.#nextLeader.reject(this.#closedError);
    this.detach();
  }

  /**
   * Starts a call, as in Connection.
   * @param {Request} request
   * @param {CallHandlers} [handlers]
   * @returns {{ id: number, end: Promise<any> }}
   */
  begin(request, handlers = {}) {
    const { method, target, kind } = request;
    if (this.#closedError) throw this.#closedError;
    handlers.signal?.throwIfAborted();
    const id = ++this.#lastId;
    if (method === 'close') return { id, end: this.#close(target) };
    if (target === 0 && STICKY_CALLS[method]) this.#stickyCalls.set(STICKY_CALLS[method], request);
    const row = kind ? TABLE[kind][method] : undefined;
    // With a fixed seed, another leader computes the same tokens.
    const seed = Math.floor(Math.random() * 2 ** 53);
    /** @type {Call} */
    const call = {
      request: row?.stream ? { ...request, options: { seed, ...request.options } } : request,
      row,
      handlers,
      sentCall: null,
      parts: [],
      readCount: Infinity,
      lostLeaders: 0,
      lifetime: new AbortController(),
      object: null,
      recreation: null,
    };
    this.#calls.set(id, call);
    const end = this.#run(call).finally(() => this.#calls.delete(id));
    end.catch((error) => call.recreation?.reject(error));
    this.onLeaderNeeded();
    return { id, end };
  }

  /** Sends a message about a call to the leader. @param {any} message */
  send({ id, ...message }) {
    const call = this.#calls.get(id);
    if (!call) return;
    call.sentCall?.connection.send({ id: call.sentCall.id, ...message });
    if (!message.abort) return;
    call.readCount = message.readCount ?? Infinity;
    call.lifetime.abort(unpackError(message.abort));
  }

  /** Closes an object. @param {number | string} target */
  async #close(target) {
    const pendingHandle = this.#objects.get(target)?.handle;
    this.#forget(target);
    const connection = this.#connection;
    const handle = await pendingHandle?.catch(() => null);
    if (connection && handle) await closeObject(connection, handle);
  }

  /** Removes an object and its children from the records. @param {number | string} target */
  #forget(target) {
    this.#objects.delete(target);
    for (const [child, { parent }] of this.#objects) if (parent === target) this.#forget(child);
  }

  /** Sends a call to successive leaders until one of them has ended it. @param {Call} call @returns {Promise<any>} */
  async #run(call) {
    const { signal } = call.handlers;
    const lifetimeSignal = call.lifetime.signal;
    for (;;) {
      const connection = this.#connection;
      try {
        if (lifetimeSignal.aborted) return abortedResult(call);
        if (connection) return await this.#send(call, connection);
        await unlessAborted(unlessAborted(this.connected(), signal), lifetimeSignal);
      } catch (error) {
        if (this.#closedError) throw this.#closedError;
        signal?.throwIfAborted();
        if (lifetimeSignal.aborted && !call.sentCall) return abortedResult(call);
        if (!connection || this.#isCurrent(connection)) throw error;
        call.sentCall = null;
        if (lifetimeSignal.aborted) return abortedResult(call);
        if (call.parts.length && call.request.options.deadline !== undefined)
          throw restartedError("the tab that computed the generation was closed, and its deadline can't be met", call);
        if (++call.lostLeaders >= MAX_LOST_LEADERS)
          throw restartedError(`${call.lostLeaders} tabs in a row were lost while they computed the call`, call);
      }
    }
  }

  /**
   * Sends a call to the leader of a connection.
   * @param {Call} call
   * @param {Connection} connection
   * @returns {Promise<any>}
   */
  async #send(call, connection) {
    const { request, row, handlers } = call;
    const { target, method, args, kind } = request;
    const tabObject = this.#objects.get(target);
    const session = (kind === 'session' && tabObject) || null;
    const prepare = async () => {
      const handle = await this.#resolveObject(target, kind);
      if (session && dependsOnTokens(request)) await this.#restoreTokens(session, connection, handle);
      return { target: handle.target, options: await this.#toLeaderIds(request.options) };
    };
    const handle = await unlessAborted(unlessAborted(prepare(), handlers.signal), call.lifetime.signal);
    const isEmpty = session && !session.sequenceReady;
    let position = 0;
    let isDifferent = false;
    const { id, end } = connection.begin(
      { ...handle, method, args, kind },
      {
        ...handlers,
        onPart: (part) => {
          if ('sync' in part) return handlers.onPart?.(part);
          const earlier = call.parts[position++];
          if (!earlier) {
            call.parts.push(part);
            return handlers.onPart?.(part);
          }
          // An earlier leader has already computed this part.
          isDifferent ||= earlier.token !== part.token || earlier.text !== part.text;
          const reply = isDifferent ? { abort: { name: 'AbortError', message: 'it differs' } } : { grant: 1 };
          return connection.send({ id, ...reply });
        },
        onHandle: (newHandle) => handlers.onHandle?.(this.#register(call, newHandle)),
      },
    );
    call.sentCall = { connection, id, target: handle.target };
    const changesTokens = session !== null && TOKEN_CALLS.includes(method);
    // If the session was just created again and has no tokens yet, the recorded tokens stay.
    const value = await end.catch(async (error) => {
      if (changesTokens && !isEmpty) await this.#updateTokens(session, connection, handle.target);
      throw error;
    });
    if (isDifferent) throw restartedError('the new leader computed other tokens than the one before', call);
    if (changesTokens) {
      const { adapter } = request.options ?? {};
      if (adapter !== undefined)
        session.request = { ...session.request, options: { ...session.request.options, adapter } };
      session.sequenceReady = Promise.resolve();
      await this.#updateTokens(session, connection, handle.target);
    }
    if (method === 'loadPromptCache' && tabObject && args)
      tabObject.promptCaches = [
        ...tabObject.promptCaches.filter(([promptCache]) => promptCache !== args[0]),
        args,
      ].slice(-tabObject.info.sessions);
    return row?.makes && value ? { handle: this.#register(call, value.handle) } : value;
  }

  /**
   * Records the tokens of a session. Errors of a lost connection are ignored.
   * @param {TabObject} session
   * @param {Connection} connection
   * @param {number | string} target
   */
  async #updateTokens(session, connection, target) {
    try {
      session.tokens = await connection.begin({ target, method: 'tokens', args: [] }).end;
    } catch (error) {
      if (!this.#isCurrent(connection)) throw error;
    }
  }

  /**
   * Records an object that a call has created. Its number stays the same at later leaders.
   * @param {Call} call
   * @param {Handle} handle
   */
  #register(call, handle) {
    if (call.object) {
      call.object.handle = Promise.resolve(handle);
      call.recreation?.resolve(handle);
      return { target: 0, info: call.object.info }; // the proxy exists already and ignores it
    }
    const { request, row } = call;
    const parent = this.#objects.get(request.target);
    const target = ++this.#lastId;
    const isFork = parent?.kind === 'session';
    /** @type {TabObject} */
    const tabObject = {
      kind: String(row?.makes),
      parent: isFork ? parent.parent : request.target,
      origin: isFork ? request.target : null,
      request: isFork ? parent.request : request,
      info: handle.info?.id ? { ...handle.info, id: `shared-${target}` } : handle.info,
      handle: Promise.resolve(handle),
      lostLeaders: 0,
      tokens: isFork ? parent.tokens : [],
      sequenceReady: Promise.resolve(),
      promptCaches: [],
    };
    call.object = tabObject;
    this.#objects.set(target, tabObject);
    return { target, info: tabObject.info };
  }

  /**
   * Returns the handle of an object at the current leader, where it is created again if necessary.
   * @param {number | string} target
   * @param {string} [kind]  of an object that may be closed, for the error
   * @returns {Promise<Handle>}
   */
  async #resolveObject(target, kind) {
    if (target === 0 || target === 'store') return { target };
    const tabObject = this.#objects.get(target);
    if (!tabObject) throw new BqError('CLOSED', `the ${kind} was closed`);
    if (!tabObject.handle) {
      const handle = this.#recreate(target, tabObject);
      tabObject.handle = handle;
      handle.catch(() => {
        if (tabObject.handle === handle) tabObject.handle = null;
      });
    }
    return tabObject.handle;
  }

  /**
   * Creates an object again at the current leader.
   * @param {number | string} target
   * @param {TabObject} tabObject
   * @returns {Promise<Handle>}
   */
  async #recreate(target, tabObject) {
    const connection = /** @type {Connection} */ (this.#connection);
    const origin = tabObject.origin === null ? undefined : this.#objects.get(tabObject.origin);
    const parentHandle = await this.#resolveObject(
      origin ? /** @type {number} */ (tabObject.origin) : tabObject.parent,
    );
    if (origin) await this.#restoreTokens(origin, connection, parentHandle);
    const { method, args, options } = origin ? { method: 'fork', args: [], options: undefined } : tabObject.request;
    const leaderOptions = await this.#toLeaderIds(options);
    /** @type {Handle} */
    const handle = await new Promise((resolve, reject) => {
      const request = { target: parentHandle.target, method, args, options: leaderOptions };
      connection.begin(request, { onHandle: resolve }).end.then((value) => value && resolve(value.handle), reject);
    }).catch((error) => {
      if (!this.#isCurrent(connection)) tabObject.lostLeaders++;
      throw error;
    });
    for (const promptCache of tabObject.promptCaches)
      await connection
        .begin({ target: handle.target, method: 'loadPromptCache', args: promptCache })
        .end.catch(() => {}); // prompt caches only save time
    if (!this.#objects.has(target)) void closeObject(connection, handle);
    return handle;
  }

  /**
   * Computes the recorded tokens of a session that was created again.
   * @param {TabObject} session
   * @param {Connection} connection
   * @param {Handle} handle
   */
  #restoreTokens(session, connection, { target }) {
    if (!session.sequenceReady) {
      const { tokens, parent, request } = session;
      const context = request.options?.contextTokens ?? this.#objects.get(parent)?.info.contextTokens;
      const args = [Uint32Array.from(tokens.slice(0, context))];
      const sequenceReady = tokens.length
        ? connection.begin({ target, method: 'generate', args, options: { maxTokens: 0 } }).end
        : Promise.resolve();
      session.sequenceReady = sequenceReady;
      sequenceReady.catch(() => {
        if (session.sequenceReady === sequenceReady) session.sequenceReady = null;
      });
    }
    return session.sequenceReady;
  }

  /** Replaces the ids of the adapter and the draft model in options by the leader's ids. @param {any} options */
  async #toLeaderIds(options) {
    const { adapter, speculate } = options ?? {};
    const leaderId = async (/** @type {string} */ id) => {
      for (const [target, { info }] of this.#objects)
        if (info?.id === id) return (await this.#resolveObject(target)).info.id;
      return id;
    };
    if (adapter) options = { ...options, adapter: await leaderId(adapter) };
    if (speculate?.model) options = { ...options, speculate: { ...speculate, model: await leaderId(speculate.model) } };
    return options;
  }
}
