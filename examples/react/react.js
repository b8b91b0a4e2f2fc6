// React for a page without a bundler. npm has it as CommonJS: its files run here as modules, which share what they export.
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
