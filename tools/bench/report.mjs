export const reportText = () => '';
