/** The session pool of a model: idle sessions, from which a reply takes one with a common prefix. */

/** @import { LocalSession } from '../session/session.js' */

export class SessionPool {
  /** Idle sessions; the least recently used one is the first. @type {Set<LocalSession>} */
  #idle = new Set();
  /** All open sessions of the pool. @type {Set<LocalSession>} */
  sessions = new Set();
  #create;

  /** @param {() => LocalSession | null} create  creates a session; returns null if there is no room for another one */
  constructor(create) {
    this.#create = create;
  }

  /**
   * Takes a session for a prompt; returns null if all sessions are in use. Takes the idle session with the longest
   * common prefix, if the prefix is at least half of the session's tokens: keeping a long conversation is worth more
   * than reusing a short prefix. Otherwise takes a new session, or the least recently used one.
   * @param {ArrayLike<number>} tokens @param {string | null} adapter  id of the prompt's adapter
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

  /** Returns whether the reader of any session in use has read since a time. @param {number} since */
  hasActive(since) {
    return [...this.sessions].some(
      (session) => !this.#idle.has(session) && !session.isClosed && session.unreadSince > since,
    );
  }

  /** Removes an adapter from idle sessions. @param {string} adapter */
  dropAdapter(adapter) {
    for (const session of this.#idle) if (session.adapter === adapter) session.useAdapter(null);
  }

  /** Closes the least recently used idle session. @returns {boolean}  false: no session was idle */
  evict() {
    const [oldest] = this.#idle;
    if (!oldest) return false;
    this.#idle.delete(oldest);
    this.sessions.delete(oldest);
    oldest.end();
    return true;
  }
}
