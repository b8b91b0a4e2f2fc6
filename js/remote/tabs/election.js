/**
 * Leader election among the tabs that share an engine. The leader of a term holds that term's Web Lock; the others wait for it, so the
 * browser chooses the next leader when the tab is gone. A leader that doesn't answer is replaced through the lock of the next term: the
 * highest term wins, and a leader of a lower term resigns when it receives the announcement. (Locks are never stolen: a steal across threads
 * corrupts the memory of Node 24.) Messages on the BroadcastChannel of all tabs: `{ hello }` asks for the leader, `{ leader, term }`
 * announces it, `{ join, leader, channel }` asks it for a private channel, `{ ping }` and `{ pong }` show that it isn't frozen,
 * `{ resigned }` says that a tab is no longer the leader.
 */
import { deferred } from '../../shared/async.js';
import { Leader } from './leader.js';
import { BroadcastPort } from './broadcast-port.js';

/** @import { Engine } from '../../shared/types.js' */
/** @import { ReplayConnection } from './replay.js' */

/** Checks of the leader within the timeout. */
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
  /** Id of the leading tab; '': unknown. */
  #leader = '';
  /** The highest term in any message so far. */
  #term = 0;
  /** The leader's work, while this tab is the leader. @type {Leader | null} */
  #leadership = null;
  /** @type {BroadcastPort | null} */
  #port = null;
  /** Name of the private channel to the leader, new for each attempt to join; the number of attempts. */
  #channel = '';
  #joinCount = 0;
  /** Aborts the request for the leader's lock. @type {AbortController | null} */
  #candidacy = null;
  #departure = deferred();
  /** @type {any} */
  #timer = null;
  /** Checks in a row without an answer. */
  #missedChecks = 0;
  #isClosed = false;

  /**
   * @param {string} groupName  common to all tabs that share the engine
   * @param {() => Promise<Engine>} create @param {number} timeout  milliseconds @param {ReplayConnection} connection
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
    // The lock comes first: the leader keeps the objects of a tab as long as the tab holds its lock.
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

  /** @param {string} tab */
  #lockOf = (tab) => `${this.#groupName} ${tab}`;

  /** The highest term whose lock a tab holds; -1: there is no leader. */
  async #heldTerm() {
    const { held = [] } = await this.#locks.query();
    const prefix = this.#lockOf('leader ');
    const terms = held.map(({ name = '' }) => (name.startsWith(prefix) ? name.slice(prefix.length) : ''));
    return Math.max(-1, ...terms.filter((term) => /^\d+$/.test(term)).map(Number));
  }

  /** Asks for the leader, and requests the leader's lock. */
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

  /** Handles the announcement of a leader: the highest term wins. @param {string} leader @param {number} term */
  #receiveLeader(leader, term) {
    if (term < this.#term) return this.#leadership && this.#announce();
    this.#missedChecks = 0;
    if (this.#leadership && term > this.#term) this.#leadership.resign();
    this.#term = term;
    if (!this.#leadership) this.#joinLeader(leader);
  }

  /** Requests the lock of the present term, or with `replace` of the next one, and leads while this tab holds it. @param {boolean} replace */
  async #runForLeader(replace) {
    this.#candidacy?.abort();
    const candidacy = new AbortController();
    this.#candidacy = candidacy;
    const term = Math.max(this.#term, await this.#heldTerm()) + (replace ? 1 : 0);
    /** @type {Leader | undefined} */
    let leadership;
    /** @type {unknown} */
    let failure;
    const holdLeadership = async () => {
      // Another term may have begun while this tab waited for a lock that a frozen tab held.
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
    // A tab that can't create an engine leaves the lead to the next tab. Without another tab, its own callers get the error.
    if ((await this.#heldTerm()) >= 0) this.#send({ hello: this.#tabId });
    else if (!this.#leader) this.#connection.fail(failure);
  }

  /** @param {Leader} leadership */
  async #end(leadership) {
    if (this.#leadership === leadership) {
      this.#leadership = null;
      this.#broadcast.postMessage({ resigned: this.#tabId });
      this.#leaveLeader();
    }
    leadership.resign();
    await leadership.close();
  }

  /** Drops the connection to the leader. */
  #leaveLeader() {
    this.#leader = '';
    this.#port?.close();
    this.#port = null;
    this.#connection.detach();
  }

  /** @param {string} leader */
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

  /** Starts checks of the leader, because calls wait for its answers. */
  #startChecks() {
    if (this.#isClosed) return;
    if (!this.#leader) this.#findLeader();
    if (this.#timer !== null) return;
    this.#missedChecks = 0;
    this.#timer = setInterval(() => this.#checkLeader(), this.#timeout / CHECKS);
  }

  /** Counts checks instead of time, because a tab that was suspended itself has not waited. */
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

  /** Leaves the group; the browser grants the lock to the next tab. */
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
