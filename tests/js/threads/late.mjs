// A thread that begins when it hears that it may.
const gate = new BroadcastChannel('bq4 late thread');
await new Promise((resolve) => (gate.onmessage = resolve));
gate.close();
await import('../../../js/thread.js');
