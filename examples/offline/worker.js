// The engine's worker, under an address that the service worker of this folder may answer for. With the package: import 'bq4/files/worker.js';
import '../../js/worker.js';
