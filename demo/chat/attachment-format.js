/** An attachment at the beginning of a message: its name, its fence, its text. */
export const ATTACHMENT = /^([^\n`]{1,200}):\n(`{3,})\n([^]*?)\n\2(?:\n+|$)/;
