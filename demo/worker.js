// The engine's worker. It is in this folder because the folder's service worker serves only addresses below it.
import './models/early-request.js';
import './panel/request-reporter.js';
import '../js/worker.js';
// Loaded at the start, so that local files can also be opened offline.
import '../js/storage/sources/blob.js';
