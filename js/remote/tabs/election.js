/**
 * Leader election among the tabs that share an engine. The leader of a term holds that term's Web Lock; the others wait for it, so the
 * browser chooses the next leader when the tab is gone. A leader that doesn't answer is replaced by the lock of the next term: the
 * highest term wins, and a leader of a lower one resigns when it hears of it. (Locks are never stolen: a steal across threads
 * corrupts the memory of Node 24.) Messages on the BroadcastChannel of all tabs: `{ hello }` asks for the leader, `{ leader, term }`
 * announces it, `{ join, leader, channel }` asks it for a channel of one's own, `{ ping }` and `{ pong }` show that it isn't frozen,
 * `{ left }` says that a tab is leader no more.
 */
import { deferred } from '../../shared/async.js';
import { Leader } from './leader.js';
import { Way } from './broadcast-port.js';

/** @import { Engine } from '../../shared/types.js' */
/** @import { Kept } from './replay.js' */

/** Looks at whether the leader answers, within its patience. */
const LOOKS = 4;

export class Tab {
  #id = crypto.randomUUID();
  #locks = /** @type {LockManager} */ (navigator.locks);
  #room;
  #create;
  #patience;
  /** @type {Kept} */
  #kept;
  /** @type {BroadcastChannel} */
  #hall;
  /** The tab that leads, as far as is known; '': unknown. */
  #leader = '';
  /** The highest term that this tab has heard of. */
  #term = 0;
  /** What this one does if it leads. @type {Leader | null} */
  #lead = null;
  /** @type {Way | null} */
  #way = null;
  /** The channel of it, another one each time; of those that there were, how many. */
  #channel = '';
  #joins = 0;
  /** Ends the waiting for the lock. @type {AbortController | null} */
  #queue = null;
  #gone = deferred();
  /** @type {any} */
  #timer = null;
  /** Looks in a row without an answer. */
  #silent = 0;
  #closed = false;

  /**
   * @param {string} room  a name that those who share have in common
   * @param {() => Promise<Engine>} create @param {number} patience  milliseconds @param {Kept} kept
   */
  constructor(room, create, patience, kept) {
    this.#room = room;
    this.#create = create;
    this.#patience = patience;
    this.#kept = kept;
    this.#hall = new BroadcastChannel(room);
    this.#hall.onmessage = (/** @type {any} */ { data }) => this.#hear(data);
    kept.onWant = () => this.#want();
    kept.onLost = () => this.#part();
  }

  get leads() {
    return this.#lead !== null;
  }

  /** Takes part from now on. */
  async enter() {
    // Before anybody is asked for anything: what is done for a tab lasts as long as its lock.
    const held = deferred();
    this.#locks
      .request(this.#lockOf(this.#id), () => {
        held.resolve(undefined);
        return this.#gone.promise;
      })
      .catch(held.reject);
    await held.promise;
    this.#seek();
    this.#want();
  }

  /** @param {string} tab */
  #lockOf = (tab) => `${this.#room} ${tab}`;

  /** The highest term whose lock a tab holds; -1: there is no leader. */
  async #heldTerm() {
    const { held = [] } = await this.#locks.query();
    const prefix = this.#lockOf('leader ');
    const terms = held.map(({ name = '' }) => (name.startsWith(prefix) ? name.slice(prefix.length) : ''));
    return Math.max(-1, ...terms.filter((term) => /^\d+$/.test(term)).map(Number));
  }

  /** Asks for the leader, and waits for the lock. */
  #seek() {
    if (!this.#queue && !this.#lead) void this.#stand(false);
    this.#tell({ hello: this.#id });
  }

  #announce() {
    this.#tell({ leader: this.#id, term: this.#term });
  }

  /** @param {object} message */
  #tell(message) {
    if (!this.#closed) this.#hall.postMessage(message);
  }

  /** @param {any} message */
  #hear({ hello, leader, term, join, channel, ping, pong, left }) {
    if (this.#closed) return;
    if (left && left === this.#leader) return this.#part();
    if (hello && this.#lead) return this.#announce();
    if (join) return leader === this.#id && this.#lead?.admit(join, channel);
    if (ping === this.#id && this.#lead) return this.#tell({ pong: ping });
    if (leader) return this.#hearLeader(leader, term);
    if (pong === this.#leader) this.#silent = 0;
  }

  /** A tab says that it leads: the highest term wins. @param {string} leader @param {number} term */
  #hearLeader(leader, term) {
    if (term < this.#term) return this.#lead && this.#announce();
    this.#silent = 0;
    if (this.#lead && term > this.#term) this.#lead.resign();
    this.#term = term;
    if (!this.#lead) this.#join(leader);
  }

  /** Waits for the lock of the present term, or of the next one, and leads as long as this tab holds it. @param {boolean} replace  the present leader */
  async #stand(replace) {
    this.#queue?.abort();
    const queue = new AbortController();
    this.#queue = queue;
    const term = Math.max(this.#term, await this.#heldTerm()) + (replace ? 1 : 0);
    /** @type {Leader | undefined} */
    let lead;
    /** @type {unknown} */
    let failed;
    const led = async () => {
      // Another term may have begun while this tab waited for a lock that a frozen tab held.
      const outvoted = term < this.#term || term < (await this.#heldTerm());
      if (outvoted || this.#queue !== queue || this.#closed) return;
      lead = new Leader(this.#create, this.#locks, this.#lockOf, this.#patience);
      this.#lead = lead;
      this.#term = term;
      this.#join(this.#id);
      this.#announce();
      failed = await lead.over;
      await this.#end(lead);
    };
    try {
      if (this.#queue === queue && !this.#closed)
        await this.#locks.request(this.#lockOf(`leader ${term}`), { signal: queue.signal }, led);
    } catch {
      // It is no longer wanted.
    }
    if (lead) await this.#end(lead);
    if (this.#queue !== queue) return;
    this.#queue = null;
    if (this.#closed) return;
    if (!failed) return this.#seek();
    // A tab that could make no engine leaves it to the next one that waits; where there is none, its own callers are told.
    if ((await this.#heldTerm()) >= 0) this.#tell({ hello: this.#id });
    else if (!this.#leader) this.#kept.fail(failed);
  }

  /** @param {Leader} lead */
  async #end(lead) {
    if (this.#lead === lead) {
      this.#lead = null;
      this.#hall.postMessage({ left: this.#id });
      this.#part();
    }
    lead.resign();
    await lead.close();
  }

  /** No longer with the one that leads. */
  #part() {
    this.#leader = '';
    this.#way?.close();
    this.#way = null;
    this.#kept.lost();
  }

  /** @param {string} leader */
  #join(leader) {
    if (leader !== this.#leader) {
      this.#part();
      this.#leader = leader;
      if (this.#lead) {
        const { port1, port2 } = new MessageChannel();
        this.#lead.serve(leader, port1);
        return void this.#kept.attach(port2);
      }
      this.#channel = `${this.#room} ${leader} ${this.#id} ${++this.#joins}`;
      const way = new Way(this.#channel);
      this.#way = way;
      way.onsign = () => (this.#silent = 0);
      way.onready = () => {
        way.onready = () => {};
        void this.#kept.attach(way);
      };
    } else if (this.#lead || this.#kept.attached) return;
    this.#tell({ join: this.#id, leader, channel: this.#channel });
  }

  /** Something waits for an answer: whoever leads must show that it is there. */
  #want() {
    if (this.#closed) return;
    if (!this.#leader) this.#seek();
    if (this.#timer !== null) return;
    this.#silent = 0;
    this.#timer = setInterval(() => this.#look(), this.#patience / LOOKS);
  }

  /** What counts is looks, not the clock: a tab that was asleep itself has not waited. */
  #look() {
    if (!this.#kept.waits) {
      clearInterval(this.#timer);
      this.#timer = null;
    } else if (this.#lead) this.#silent = 0;
    else if (++this.#silent > LOOKS) {
      this.#silent = 0;
      void this.#stand(true);
    } else if (this.#kept.attached) this.#tell({ ping: this.#leader });
    else this.#tell({ hello: this.#id });
  }

  /** Leaves: the lock goes to the next in line. */
  async leave() {
    clearInterval(this.#timer);
    this.#closed = true;
    this.#queue?.abort();
    if (this.#lead) await this.#end(this.#lead);
    else this.#part();
    this.#gone.resolve(undefined);
    this.#hall.close();
  }
}
