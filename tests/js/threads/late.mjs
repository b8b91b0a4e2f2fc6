// A thread that starts when the test sends a message.
const gate = new BroadcastChannel('bq4 late thread');
await new Promise((resolve) => (gate.onmessage = resolve));
gate.close();
await import('../../../js/thread.js');
