// React for a page without a bundler. Its npm packages are CommonJS files. They run here as modules with one common `exports` object,
// which `require` returns for every name.
const React = /** @type {any} */ ({});
Object.assign(globalThis, { exports: React, require: () => React });
for (const file of [
  'react/cjs/react.production.js',
  'scheduler/cjs/scheduler.production.js',
  'react-dom/cjs/react-dom.production.js',
  'react-dom/cjs/react-dom-client.production.js',
])
  await import(new URL(`../../node_modules/${file}`, import.meta.url).href);

export const { createElement, createRoot, StrictMode, useCallback, useEffect, useMemo, useRef, useState } = React;
