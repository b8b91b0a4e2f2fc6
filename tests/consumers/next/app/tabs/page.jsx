'use client';
import { useEffect } from 'react';
import { share } from '../../shared.js';

export default function Tabs() {
  useEffect(() => share(), []);
  return <p>a page whose tabs share an engine</p>;
}
