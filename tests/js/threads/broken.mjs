// Script of a worker that throws at once.
throw new Error('this one is broken');
