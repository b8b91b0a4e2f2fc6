/** The session pool of a model: the next reply takes the idle session with the longest common prefix. */

/** @import { LocalSession } from '../session/session.js' */

export class SessionPool {
  /** Idle sessions, the least recently used first. @type {Set<LocalSession>} */
  #idle = new Set();
  /** All open sessions of the pool. @type {Set<LocalSession>} */
  sessions = new Set();
  #create;

  /** @param {() => LocalSession | null} create  creates a session; null: there is no room for another */
  constructor(create) {
    this.#create = create;
  }

  /**
   * Takes a session for a prompt; null: all are in use. It is the one with the longest common prefix, if that is at least half of
   * its tokens, since keeping a longer conversation is worth more than a short prefix. Otherwise a new session, or the least
   * recently used.
   * @param {ArrayLike<number>} tokens @param {string | null} adapter  of the prompt
   */
  take(tokens, adapter) {
    let best = null;
    let longest = -1;
    for (const session of this.#idle) {
      const length = session.sharedLength(tokens, adapter);
      if (length > longest) [best, longest] = [session, length];
    }
    const [oldest = null] = this.#idle;
    const chosen = (best && 2 * longest >= best.length ? best : this.#create()) ?? oldest;
    if (!chosen) return null;
    this.#idle.delete(chosen);
    this.sessions.add(chosen);
    return chosen;
  }

  /** Returns a session to the pool. @param {LocalSession} session */
  give(session) {
    if (!session.isClosed) this.#idle.add(session);
  }

  /** Whether the reader of a session in use has read since this time. @param {number} since */
  hasActive(since) {
    return [...this.sessions].some(
      (session) => !this.#idle.has(session) && !session.isClosed && session.unreadSince > since,
    );
  }

  /** Removes an adapter from idle sessions. @param {string} adapter */
  dropAdapter(adapter) {
    for (const session of this.#idle) if (session.adapter === adapter) session.useAdapter(null);
  }

  /** Closes the least recently used idle session. @returns {boolean}  false: there was none */
  evict() {
    const [oldest] = this.#idle;
    if (!oldest) return false;
    this.#idle.delete(oldest);
    this.sessions.delete(oldest);
    oldest.end();
    return true;
  }
}
