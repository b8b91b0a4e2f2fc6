/**
 * Service worker of the site's root, where no page is: redirects to the demo, also offline. It leaves all other
 * requests alone.
 */

/** The global of a service worker, for which this project has no types. @type {any} */
const worker = globalThis;

worker.addEventListener('install', () => worker.skipWaiting());

worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const { mode, url } = event.request;
  const { scope } = worker.registration;
  if (mode === 'navigate' && url.split(/[?#]/, 1)[0] === scope)
    event.respondWith(Response.redirect(new URL(`./${url.slice(scope.length)}`, location.href)));
});
