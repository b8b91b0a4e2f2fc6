/** What the service worker gives the page: a start without a network, and memory that threads can share. */

/** So long may the first visit wait for the service worker before it goes on without. */
const DEADLINE = 8000;
/** In sessionStorage: this tab has been reloaded for the sake of isolation once. */
const TRIED = 'bq4.isolating';

/**
 * Registers the service worker and waits until it holds page and engine, and the store the bundled model.
 * @param {import('./models/picker.js').Shelf | null} store
 * @param {() => Promise<boolean>} keepBundled  waits until it is stored, and says whether it is
 * @returns {Promise<string>}  what works without a network, for people
 */
export async function keepForOffline(store, keepBundled) {
  if (!('serviceWorker' in navigator)) return 'no: this browser lets the page store nothing';
  try {
    const worker = await active();
    const [isKept] = await Promise.all([worker && keepPage(worker), keepBundled()]);
    if (isKept) {
      void atRoot().catch(() => {}); // without a network, or refused
      const models = (await store?.list().catch(() => []))?.filter(({ complete }) => complete).length ?? 0;
      return models ? `yes, with ${models === 1 ? '1 model' : `${models} models`}` : 'not yet: no model stored';
    }
  } catch {
    // Refused (private mode, storage full, no secure context): the page works as long as it is open.
  }
  return 'no: the page could not be stored';
}

/**
 * On a host that doesn't send the headers for cross-origin isolation the service worker adds them, but only to pages
 * that are loaded after it started. So the first visit reloads itself, once; where that doesn't help (or isn't worth
 * it: in a frame, which its parent would have to isolate too), the engine runs on one thread.
 * @returns {Promise<boolean>}  whether the page is being reloaded
 */
export async function isolate() {
  if (crossOriginIsolated || !isSecureContext || !('serviceWorker' in navigator) || top !== self) return false;
  try {
    if (sessionStorage.getItem(TRIED)) return false;
    const late = new Promise((resolve) => setTimeout(resolve, DEADLINE, false));
    if (!(await Promise.race([active(), late]))) return false;
    sessionStorage.setItem(TRIED, 'yes');
  } catch {
    return false; // Nothing may be stored here: nothing would keep it from reloading for ever.
  }
  location.reload();
  return true;
}

/**
 * Tells when another version of the page is kept whole: it is taken when the person wants it, or when no page is open.
 * @param {(take: () => void) => void} offer
 * @param {() => void} onOthers  other pages of the old version are open, so it can't be taken
 */
export function onVersion(offer, onOthers) {
  if (!('serviceWorker' in navigator)) return;
  navigator.serviceWorker.addEventListener('message', ({ data }) => {
    if (data?.version === 'next') offer(() => navigator.serviceWorker.controller?.postMessage('take'));
    if (data?.version === 'taken') location.reload();
    if (data?.version === 'others open') onOthers();
  });
  navigator.serviceWorker.startMessages();
  navigator.serviceWorker.controller?.postMessage('ask');
}

/** Has the page and the engine kept. @param {ServiceWorker} worker @returns {Promise<boolean>}  whether they are */
const keepPage = (worker) =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data);
    worker.postMessage('keep', [port2]);
  });

/** The service worker, once it is known whether it is active. */
async function active() {
  const registration = await navigator.serviceWorker.register(new URL('./sw.js', import.meta.url));
  const coming = registration.installing ?? registration.waiting;
  if (coming && !registration.active) await settled(coming);
  return registration.active;
}

/** Where the server lets a script of this folder answer for its root address, that will work without a network too. */
async function atRoot() {
  const root = new URL('../', import.meta.url);
  const script = new URL('./root.js', import.meta.url);
  if ((await navigator.serviceWorker.getRegistration(root))?.scope === root.href) return;
  // Asked beforehand: browsers print a refusal as an error of the page.
  const { headers } = await fetch(script, { method: 'HEAD' });
  if (headers.has('Service-Worker-Allowed')) await navigator.serviceWorker.register(script, { scope: root.pathname });
}

/** @param {ServiceWorker} worker */
const settled = (worker) =>
  new Promise((resolve) => {
    const look = () => ['activated', 'redundant'].includes(worker.state) && resolve(undefined);
    worker.addEventListener('statechange', look);
    look();
  });
