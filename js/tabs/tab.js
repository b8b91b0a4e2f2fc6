/**
 * One tab among those that share an engine. Who leads holds a lock; the others wait for it, so the browser says who is next when it
 * is gone. They speak in a hall, a BroadcastChannel of all: `{ hello }` asks who leads, `{ leader }` tells, `{ join, leader, channel }` asks
 * that one for a way of its own, `{ ping }` and `{ pong }` show that it isn't frozen, `{ left }` says that it leads no more.
 */
import { gate } from '../shared/async.js';
import { Leader } from './leader.js';
import { Way } from './way.js';

/** @import { Engine } from '../shared/types.js' */
/** @import { Kept } from './kept.js' */

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
  /** The tab that leads, as far as is known; '': nobody. */
  #leader = '';
  /** What this one does if it leads. @type {Leader | null} */
  #lead = null;
  /** @type {Way | null} */
  #way = null;
  /** The channel of it, another one each time; of those that there were, how many. */
  #channel = '';
  #joins = 0;
  /** Ends the waiting for the lock. @type {AbortController | null} */
  #queue = null;
  #gone = gate();
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
    const held = gate();
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

  /** Asks who leads, and stands in line. */
  #seek() {
    if (!this.#queue && !this.#lead) void this.#stand(false);
    this.#tell({ hello: this.#id });
  }

  /** @param {object} message */
  #tell(message) {
    if (!this.#closed) this.#hall.postMessage(message);
  }

  /** @param {any} message */
  #hear({ hello, leader, join, channel, ping, pong, left }) {
    if (this.#closed) return;
    if (left && left === this.#leader) return this.#part();
    if (hello && this.#lead) return this.#tell({ leader: this.#id });
    if (join) return leader === this.#id && this.#lead?.admit(join, channel);
    if (ping === this.#id && this.#lead) return this.#tell({ pong: ping });
    if (leader || pong === this.#leader) this.#silent = 0;
    if (leader && !this.#lead) this.#join(leader);
  }

  /** Waits for the lock, or takes it, and leads as long as it has it. @param {boolean} steal */
  async #stand(steal) {
    this.#queue?.abort();
    const queue = new AbortController();
    this.#queue = queue;
    /** @type {Leader | undefined} */
    let lead;
    /** @type {unknown} */
    let failed;
    const led = async () => {
      if (this.#queue !== queue || this.#closed) return;
      lead = new Leader(this.#create, this.#locks, this.#lockOf, this.#patience);
      this.#lead = lead;
      this.#join(this.#id);
      this.#tell({ leader: this.#id });
      failed = await lead.over;
      await this.#end(lead);
    };
    try {
      await this.#locks.request(this.#lockOf('leader'), steal ? { steal: true } : { signal: queue.signal }, led);
    } catch {
      // It is no longer wanted, or was taken away.
    }
    if (lead) await this.#end(lead);
    if (this.#queue !== queue) return;
    this.#queue = null;
    if (this.#closed) return;
    if (!failed) return this.#seek();
    // Who could make no engine leaves it to the next in line; where there is none, whoever waits is told.
    const { held = [] } = await this.#locks.query();
    if (held.some(({ name }) => name === this.#lockOf('leader'))) this.#tell({ hello: this.#id });
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
