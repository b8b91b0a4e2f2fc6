// Collects the faults of a page in `globalThis.trouble`, for browsers that do not report them to their drivers. It is the first script of
// the page.
(() => {
  const trouble = /** @type {any} */ (globalThis.trouble = /** @type {string[]} */ ([]));
  /** Message and place: WebKit's stacks have no message. @param {any} error */
  const messageOf = (error) =>
    error?.stack && (error.stack.includes(error.message) ? error.stack : `${error}\n${error.stack}`);
  const { error } = console;
  console.error = (...args) => {
    trouble.push(`console: ${args.map(String).join(' ')}`);
    error.apply(console, args);
  };
  addEventListener(
    'error',
    (e) => trouble.push(`exception: ${messageOf(e.error) ?? e.message ?? /** @type {any} */ (e.target)?.outerHTML}`),
    true,
  );
  addEventListener('unhandledrejection', (e) => trouble.push(`exception: ${messageOf(e.reason) ?? e.reason}`));
  addEventListener('securitypolicyviolation', (e) =>
    trouble.push(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}`),
  );
})();
