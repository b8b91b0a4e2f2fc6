#!/usr/bin/env node
// `npm run bench:peers`: compares this engine with other runtimes for browsers and with native llama.cpp on this machine.
import { main } from './bench/main.mjs';
import { command } from './setup/setup.mjs';

await command(() => main({ peers: true }));
