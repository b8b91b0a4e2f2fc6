// A thread of an engine that throws as it begins.
onmessage = () => {
  throw new Error('thrown in a thread');
};
postMessage('here');
