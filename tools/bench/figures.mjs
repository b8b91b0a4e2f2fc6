export const figures = () => ({});
