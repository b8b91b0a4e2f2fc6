// A worker's script that hears everything and says nothing.
import { parentPort } from 'node:worker_threads';

parentPort?.on('message', () => {});
