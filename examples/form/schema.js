/** JSON Schema of the reply. Every model's reply satisfies it; the values may still differ from the text. */
export const SCHEMA = {
  type: 'object',
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 40 },
    age: { type: 'integer', minimum: 0, maximum: 120 },
    tickets: { type: 'integer', minimum: 1, maximum: 20 },
    day: { enum: ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] },
  },
  required: ['name', 'age', 'tickets', 'day'],
  additionalProperties: false,
};
