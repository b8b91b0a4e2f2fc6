// The engine's worker. The file is in this folder so that the folder's service worker can store it. With the package: import 'bq4/files/worker.js';
import '../../js/worker.js';
