// A worker's script that ends at once.
throw new Error('this one is broken');
