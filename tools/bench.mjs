#!/usr/bin/env node
// `npm run bench`: measures the speed of this engine on this machine. `npm run bench:peers` compares it with other engines.
import { main } from './bench/main.mjs';
import { command } from './setup/setup.mjs';

await command(() => main({ peers: false }));
