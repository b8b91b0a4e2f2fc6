// A thread of the engine, under an address that the service worker of this folder may answer for.
import '../js/thread.js';
