// The engine's worker, under an address that the service worker of this folder may answer for.
import './models/early-request.js';
import './panel/request-reporter.js';
import '../js/worker.js';
// What a file of one's own needs is there from the start, whatever becomes of the network.
import '../js/storage/sources/blob.js';
