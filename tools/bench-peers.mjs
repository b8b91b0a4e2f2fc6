#!/usr/bin/env node
// `npm run bench:peers`: this engine beside other runtimes for browsers and native llama.cpp, on this machine.
import { main } from './bench/main.mjs';
import { command } from './setup/setup.mjs';

await command(() => main({ peers: true }));
