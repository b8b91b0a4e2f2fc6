// What `npm test` runs in Chromium, in the other browsers.
process.env.BQ4_BROWSERS ??= 'firefox,webkit';
for (const name of ['demo', 'faults', 'modules']) await import(`./${name}.test.mjs`);
