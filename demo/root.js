/** Service worker of the site's root, which is no page: it leads to the demo, without a network too. Everything else it leaves alone. */

/** The types of service workers are not those of pages. @type {any} */
const worker = globalThis;

worker.addEventListener('install', () => worker.skipWaiting());

worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const { mode, url } = event.request;
  const { scope } = worker.registration;
  if (mode === 'navigate' && url.split(/[?#]/, 1)[0] === scope)
    event.respondWith(Response.redirect(new URL(`./${url.slice(scope.length)}`, location.href)));
});
