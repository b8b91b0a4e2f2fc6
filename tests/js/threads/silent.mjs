// Script of a worker that receives messages and never sends one.
import { parentPort } from 'node:worker_threads';

parentPort?.on('message', () => {});
