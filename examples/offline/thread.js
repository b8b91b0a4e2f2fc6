// A thread of the engine, under an address that the service worker of this folder may answer for. With the package: import 'bq4/files/thread.js';
import '../../js/thread.js';
