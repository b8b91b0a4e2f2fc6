// A thread of an engine that throws at its first message.
onmessage = () => {
  throw new Error('thrown in a thread');
};
postMessage('here');
