// Takes the lead of a shared engine for a moment, as a tab does that replaces a frozen leader, and gives it back.

/**
 * Resolves when the lead is free again; does nothing where there is no leader.
 * @param {string} name  of the engine, as createSharedEngine was given it
 */
export async function interruptLeader(name) {
  const { held = [] } = await navigator.locks.query();
  const lock = held
    .map((found) => / leader \d+$/.exec(found.name ?? '') && found.name)
    .find((found) => found?.includes(name));
  if (!lock) return;
  const [, room, term] = /** @type {string[]} */ (/** @type {unknown} */ (/^(.*) leader (\d+)$/.exec(lock)));
  const channel = new BroadcastChannel(room);
  await navigator.locks.request(`${room} leader ${Number(term) + 1}`, async () => {
    channel.postMessage({ leader: 'none', term: Number(term) + 1 });
    // The leader of the term before has heard of it when it gives up its lock.
    await navigator.locks.request(lock, async () => {});
    channel.postMessage({ resigned: 'none' });
  });
  channel.close();
}
