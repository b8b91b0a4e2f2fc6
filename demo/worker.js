// The engine's worker, under an address that the service worker of this folder may answer for.
import '../js/worker.js';
