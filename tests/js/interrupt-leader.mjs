// Takes the role of the leader of a shared engine, as a tab does that replaces a frozen leader, and resigns at once.

/**
 * Ends the term of the leader. Resolves after the resignation; does nothing if there is no leader.
 * @param {string} name  of the engine, the option of createSharedEngine
 */
export async function interruptLeader(name) {
  const { held: locks = [] } = await navigator.locks.query();
  const lock = locks
    .map((info) => / leader \d+$/.exec(info.name ?? '') && info.name)
    .find((lockName) => lockName?.includes(name));
  if (!lock) return;
  const [, channelName, term] = /** @type {string[]} */ (/** @type {unknown} */ (/^(.*) leader (\d+)$/.exec(lock)));
  const channel = new BroadcastChannel(channelName);
  await navigator.locks.request(`${channelName} leader ${Number(term) + 1}`, async () => {
    channel.postMessage({ leader: 'none', term: Number(term) + 1 });
    // The previous leader releases its lock when it has received the message.
    await navigator.locks.request(lock, async () => {});
    channel.postMessage({ resigned: 'none' });
  });
  channel.close();
}
