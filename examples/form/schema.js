/** What the model must write. It can't write anything else, however small it is; whether it is true is another matter. */
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
