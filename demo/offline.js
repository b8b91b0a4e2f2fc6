/**
 * The page's side of the service worker, which makes the page work offline and makes it cross-origin isolated (threads
 * need that).
 */

/** Milliseconds for which a first visit waits for the service worker. */
const DEADLINE = 8000;
/** Key in sessionStorage: this tab has already been reloaded to become isolated. */
const TRIED = 'bq4.isolating';

/**
 * Registers the service worker and waits until the page, the engine and the bundled model are stored.
 * @param {import('./models/picker.js').Store | null} store
 * @param {() => Promise<boolean>} keepBundled  waits until the bundled model is stored; returns whether it is
 * @returns {Promise<string>}  description of what works offline, shown to the user
 */
export async function keepForOffline(store, keepBundled) {
  if (!('serviceWorker' in navigator)) return 'no: this browser blocks storage';
  try {
    const worker = await active();
    const [isKept] = await Promise.all([worker && keepPage(worker), keepBundled()]);
    if (isKept) {
      void atRoot().catch(() => {}); // offline, or refused by the server
      const models = (await store?.list().catch(() => []))?.filter(({ complete }) => complete).length ?? 0;
      return models ? `yes, with ${models === 1 ? '1 model' : `${models} models`}` : 'not yet: no model stored';
    }
  } catch {
    // Storage was refused (private mode, full, no secure context). The page works while it is open.
  }
  return 'no: the page could not be stored';
}

/**
 * Makes the page cross-origin isolated on a host that does not send the headers for it. The service worker adds them, but only to
 * pages that are loaded after it has started, so the first visit reloads itself once. If that does not help, the engine runs on one
 * thread. A page in a frame is not reloaded: the parent page would have to be isolated too.
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
    return false; // Without storage the page would reload for ever.
  }
  location.reload();
  return true;
}

/**
 * Reports when another version of the page is completely stored. It replaces this version at the user's request, or once no page is open.
 * @param {(take: () => void) => void} offer
 * @param {() => void} onOthers  called if the version cannot be replaced because other tabs use it
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

/**
 * Requests that page and engine are stored.
 * @param {ServiceWorker} worker
 * @returns {Promise<boolean>}  whether they are
 */
const keepPage = (worker) =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data);
    worker.postMessage('keep', [port2]);
  });

/** Returns the active service worker; null if its activation failed. */
async function active() {
  const registration = await navigator.serviceWorker.register(new URL('./sw.js', import.meta.url));
  const coming = registration.installing ?? registration.waiting;
  if (coming && !registration.active) await settled(coming);
  return registration.active;
}

/** Makes the site's root address work offline, if the server allows a service worker of this folder to serve it. */
async function atRoot() {
  const root = new URL('../', import.meta.url);
  const script = new URL('./root.js', import.meta.url);
  if ((await navigator.serviceWorker.getRegistration(root))?.scope === root.href) return;
  // The header is checked first, because browsers log a refused registration as an error of the page.
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
