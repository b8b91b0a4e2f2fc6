/** Sessions that replies are computed in, between replies: whoever comes next takes the one that knows most of his prompt. */

/** @import { LocalSession } from '../session/session.js' */

export class Pool {
  /** The least recently used first. @type {Set<LocalSession>} */
  #idle = new Set();
  /** All that it has made and not given up. @type {Set<LocalSession>} */
  sessions = new Set();
  #create;

  /** @param {() => LocalSession | null} create  another one; null: there is room for none */
  constructor(create) {
    this.#create = create;
  }

  /**
   * A session for a prompt; null: all are in use. It is the one that shares most with it, if that is at least half of
   * what it holds: a conversation is worth more than what a new one shares with it. Else a new session, or the least
   * recently used.
   * @param {ArrayLike<number>} tokens @param {string | null} adapter  that it is to be computed with
   */
  take(tokens, adapter) {
    let best = null;
    let most = -1;
    for (const session of this.#idle) {
      const shared = session.shares(tokens, adapter);
      if (shared > most) [best, most] = [session, shared];
    }
    const [oldest = null] = this.#idle;
    const chosen = (best && 2 * most >= best.length ? best : this.#create()) ?? oldest;
    if (!chosen) return null;
    this.#idle.delete(chosen);
    this.sessions.add(chosen);
    return chosen;
  }

  /** @param {LocalSession} session  that was taken */
  give(session) {
    if (!session.closed) this.#idle.add(session);
  }

  /** Whether one that is in use is worth waiting for. @param {number} since  its reader has asked for something since then */
  works(since) {
    return [...this.sessions].some(
      (session) => !this.#idle.has(session) && !session.closed && session.heldSince > since,
    );
  }

  /** Idle sessions compute without this adapter. @param {string} adapter */
  leave(adapter) {
    for (const session of this.#idle) if (session.adapter === adapter) session.use(null);
  }

  /** Gives up the least recently used. @returns {boolean}  whether there was one */
  evict() {
    const [oldest] = this.#idle;
    if (!oldest) return false;
    this.#idle.delete(oldest);
    this.sessions.delete(oldest);
    oldest.end();
    return true;
  }
}
