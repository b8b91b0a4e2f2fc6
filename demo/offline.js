/** Makes the page work without a network after one visit, where the browser lets it. */

/** Registers the service worker and waits until it holds everything. @returns {Promise<string>}  how it went, for people */
export async function keepForOffline() {
  if (!('serviceWorker' in navigator)) return 'only until this page is closed: this browser lets it store nothing';
  try {
    const registration = await navigator.serviceWorker.register(new URL('./sw.js', import.meta.url));
    const coming = registration.installing ?? registration.waiting;
    if (coming && !registration.active) await settled(coming);
    if (registration.active) return 'yes: page, engine and model are stored';
  } catch {
    // Refused (private mode, storage full, no secure context): the page works as long as it is open.
  }
  return 'only until this page is closed: it could not be stored';
}

/** @param {ServiceWorker} worker */
const settled = (worker) =>
  new Promise((resolve) => {
    const look = () => ['activated', 'redundant'].includes(worker.state) && resolve(undefined);
    worker.addEventListener('statechange', look);
    look();
  });
