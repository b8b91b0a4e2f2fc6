/**
 * Leader election among the tabs that share an engine. The leader of an election term holds the Web Lock of that term.
 * The other tabs wait for the lock, so the browser chooses the next leader when the leader's tab is closed.
 *
 * A leader that doesn't answer is replaced by the tab that gets the lock of the next term. The leader of the highest
 * term counts, and a leader of a lower term resigns when it receives the announcement. (Locks are never stolen, because
 * a steal across threads corrupts the memory of Node 24.)
 *
 * Messages on the BroadcastChannel of all tabs: `{ hello }` requests an announcement of the leader, which is
 * `{ leader, term }`. `{ join, leader, channel }` requests a connection to the leader over a private channel.
 * `{ ping }` and `{ pong }` show that the leader isn't frozen. `{ resigned }` announces that a tab is no longer the
 * leader.
 */
import { deferred } from '../../shared/async.js';
import { Leader } from './leader.js';
import { BroadcastPort } from './broadcast-port.js';

/** @import { Engine } from '../../shared/types.js' */
/** @import { ReplayConnection } from './replay.js' */

/** Number of checks of the leader within the timeout. */
const CHECKS = 4;

export class Tab {
  #tabId = crypto.randomUUID();
  #locks = /** @type {LockManager} */ (navigator.locks);
  #groupName;
  #create;
  #timeout;
  /** @type {ReplayConnection} */
  #connection;
  /** @type {BroadcastChannel} */
  #broadcast;
  /** Id of the leader's tab; '' if unknown. */
  #leader = '';
  /** Highest term in all messages so far. */
  #term = 0;
  /** The leader's tasks; null if this tab is not the leader. @type {Leader | null} */
  #leadership = null;
  /** @type {BroadcastPort | null} */
  #port = null;
  /** Name of the private channel to the leader. Each attempt to join has another name. */
  #channel = '';
  /** Number of attempts to join. */
  #joinCount = 0;
  /** Aborts the request for the leader's lock. @type {AbortController | null} */
  #candidacy = null;
  #departure = deferred();
  /** @type {any} */
  #timer = null;
  /** Number of consecutive checks without an answer. */
  #missedChecks = 0;
  #isClosed = false;

  /**
   * @param {string} groupName  equal in all tabs that share the engine
   * @param {() => Promise<Engine>} create  creates the engine, if this tab becomes the leader
   * @param {number} timeout  milliseconds without an answer after which a leader is replaced
   * @param {ReplayConnection} connection
   */
  constructor(groupName, create, timeout, connection) {
    this.#groupName = groupName;
    this.#create = create;
    this.#timeout = timeout;
    this.#connection = connection;
    this.#broadcast = new BroadcastChannel(groupName);
    this.#broadcast.onmessage = (/** @type {any} */ { data }) => this.#receive(data);
    connection.onLeaderNeeded = () => this.#startChecks();
    connection.onConnectionLost = () => this.#leaveLeader();
  }

  get isLeader() {
    return this.#leadership !== null;
  }

  /** Joins the group. */
  async enter() {
    // The tab's own lock is requested first, because the leader keeps the objects of a tab as long as the tab holds its
    // lock.
    const lockHeld = deferred();
    this.#locks
      .request(this.#lockOf(this.#tabId), () => {
        lockHeld.resolve(undefined);
        return this.#departure.promise;
      })
      .catch(lockHeld.reject);
    await lockHeld.promise;
    this.#findLeader();
    this.#startChecks();
  }

  /** Returns the name of a tab's lock. @param {string} tab */
  #lockOf = (tab) => `${this.#groupName} ${tab}`;

  /** Returns the highest term whose lock is held, or -1 if there is no leader. */
  async #heldTerm() {
    const { held = [] } = await this.#locks.query();
    const prefix = this.#lockOf('leader ');
    const terms = held.map(({ name = '' }) => (name.startsWith(prefix) ? name.slice(prefix.length) : ''));
    return Math.max(-1, ...terms.filter((term) => /^\d+$/.test(term)).map(Number));
  }

  /** Requests an announcement of the leader, and the leader's lock. */
  #findLeader() {
    if (!this.#candidacy && !this.#leadership) void this.#runForLeader(false);
    this.#send({ hello: this.#tabId });
  }

  #announce() {
    this.#send({ leader: this.#tabId, term: this.#term });
  }

  /** @param {object} message */
  #send(message) {
    if (!this.#isClosed) this.#broadcast.postMessage(message);
  }

  /** @param {any} message */
  #receive({ hello, leader, term, join, channel, ping, pong, resigned }) {
    if (this.#isClosed) return;
    if (resigned && resigned === this.#leader) return this.#leaveLeader();
    if (hello && this.#leadership) return this.#announce();
    if (join) return leader === this.#tabId && this.#leadership?.admit(join, channel);
    if (ping === this.#tabId && this.#leadership) return this.#send({ pong: ping });
    if (leader) return this.#receiveLeader(leader, term);
    if (pong === this.#leader) this.#missedChecks = 0;
  }

  /**
   * Handles the announcement of a leader. The leader of the highest term counts.
   * @param {string} leader
   * @param {number} term
   */
  #receiveLeader(leader, term) {
    if (term < this.#term) return this.#leadership && this.#announce();
    this.#missedChecks = 0;
    if (this.#leadership && term > this.#term) this.#leadership.resign();
    this.#term = term;
    if (!this.#leadership) this.#joinLeader(leader);
  }

  /**
   * Requests the lock of a term. This tab is the leader while it holds the lock.
   * @param {boolean} replacesLeader  whether to request the lock of the next term, to replace the leader of the current
   *   one
   */
  async #runForLeader(replacesLeader) {
    this.#candidacy?.abort();
    const candidacy = new AbortController();
    this.#candidacy = candidacy;
    const term = Math.max(this.#term, await this.#heldTerm()) + (replacesLeader ? 1 : 0);
    /** @type {Leader | undefined} */
    let leadership;
    /** @type {unknown} */
    let failure;
    const holdLeadership = async () => {
      // Another term may have started while this tab waited for the lock of a frozen tab.
      const isOutvoted = term < this.#term || term < (await this.#heldTerm());
      if (isOutvoted || this.#candidacy !== candidacy || this.#isClosed) return;
      leadership = new Leader(this.#create, this.#locks, this.#lockOf, this.#timeout);
      this.#leadership = leadership;
      this.#term = term;
      this.#joinLeader(this.#tabId);
      this.#announce();
      failure = await leadership.resigned;
      await this.#end(leadership);
    };
    try {
      if (this.#candidacy === candidacy && !this.#isClosed)
        await this.#locks.request(this.#lockOf(`leader ${term}`), { signal: candidacy.signal }, holdLeadership);
    } catch {
      // The request was aborted.
    }
    if (leadership) await this.#end(leadership);
    if (this.#candidacy !== candidacy) return;
    this.#candidacy = null;
    if (this.#isClosed) return;
    if (!failure) return this.#findLeader();
    // If this tab can't create an engine, the next tab becomes the leader. Without another tab, this tab's calls fail
    // with the error.
    if ((await this.#heldTerm()) >= 0) this.#send({ hello: this.#tabId });
    else if (!this.#leader) this.#connection.fail(failure);
  }

  /** Ends the leadership of this tab. @param {Leader} leadership */
  async #end(leadership) {
    if (this.#leadership === leadership) {
      this.#leadership = null;
      this.#broadcast.postMessage({ resigned: this.#tabId });
      this.#leaveLeader();
    }
    leadership.resign();
    await leadership.close();
  }

  /** Closes the connection to the leader. */
  #leaveLeader() {
    this.#leader = '';
    this.#port?.close();
    this.#port = null;
    this.#connection.detach();
  }

  /** Connects this tab to a leader. @param {string} leader  id of its tab */
  #joinLeader(leader) {
    if (leader !== this.#leader) {
      this.#leaveLeader();
      this.#leader = leader;
      if (this.#leadership) {
        const { port1, port2 } = new MessageChannel();
        this.#leadership.serveTab(leader, port1);
        return void this.#connection.attach(port2);
      }
      this.#channel = `${this.#groupName} ${leader} ${this.#tabId} ${++this.#joinCount}`;
      const port = new BroadcastPort(this.#channel);
      this.#port = port;
      port.onSign = () => (this.#missedChecks = 0);
      port.onReady = () => {
        port.onReady = () => {};
        void this.#connection.attach(port);
      };
    } else if (this.#leadership || this.#connection.attached) return;
    this.#send({ join: this.#tabId, leader, channel: this.#channel });
  }

  /** Starts the checks of the leader. They run while calls wait for its answers. */
  #startChecks() {
    if (this.#isClosed) return;
    if (!this.#leader) this.#findLeader();
    if (this.#timer !== null) return;
    this.#missedChecks = 0;
    this.#timer = setInterval(() => this.#checkLeader(), this.#timeout / CHECKS);
  }

  /**
   * Checks whether the leader answers. Checks are counted instead of time, because time also passes while this tab is
   * suspended.
   */
  #checkLeader() {
    if (!this.#connection.isWaiting) {
      clearInterval(this.#timer);
      this.#timer = null;
    } else if (this.#leadership) this.#missedChecks = 0;
    else if (++this.#missedChecks > CHECKS) {
      this.#missedChecks = 0;
      void this.#runForLeader(true);
    } else if (this.#connection.attached) this.#send({ ping: this.#leader });
    else this.#send({ hello: this.#tabId });
  }

  /** Leaves the group. If this tab was the leader, the browser grants the lock to the next tab. */
  async leave() {
    clearInterval(this.#timer);
    this.#isClosed = true;
    this.#candidacy?.abort();
    if (this.#leadership) await this.#end(this.#leadership);
    else this.#leaveLeader();
    this.#departure.resolve(undefined);
    this.#broadcast.close();
  }
}
