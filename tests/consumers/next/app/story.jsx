'use client';
import { useEffect } from 'react';
import { show } from '../page.js';

export function Story() {
  useEffect(() => show(), []);
  return <p>a page with an engine</p>;
}
