// Minimal PDF files for tests: texts in one font, a file with a password, pages without text, Japanese in an encoding that requires a table.

/** @param {string} text */
const escapeText = (text) => text.replace(/[\\()]/g, '\\$&');

/** The bytes of a file. @param {string[]} objects  numbered from 1 @param {string} trailer  more entries of the trailer */
function encodeFile(objects, trailer) {
  let text = '%PDF-1.4\n';
  const offsets = objects.map((object, i) => {
    const offset = text.length;
    text += `${i + 1} 0 obj\n${object}\nendobj\n`;
    return offset;
  });
  const start = text.length;
  text += `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n`;
  for (const offset of offsets) text += `${String(offset).padStart(10, '0')} 00000 n \n`;
  return Buffer.from(
    `${text}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R ${trailer}>>\nstartxref\n${start}\n%%EOF\n`,
    'latin1',
  );
}

/** @param {string} content */
const streamOf = (content) => `<< /Length ${content.length} >>\nstream\n${content}\nendstream`;

/** A document. @param {string[]} contents  content stream of each page @param {string} font  the object of the font, number 3 @param {string[]} [more]  objects from number 4 on @param {string} [trailer] */
function encodeDocument(contents, font, more = [], trailer = '') {
  const first = 4 + more.length;
  const kids = contents.map((_, i) => `${first + 2 * i} 0 R`).join(' ');
  return encodeFile(
    [
      '<< /Type /Catalog /Pages 2 0 R >>',
      `<< /Type /Pages /Kids [${kids}] /Count ${contents.length} >>`,
      font,
      ...more,
      ...contents.flatMap((content, i) => [
        `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents ${first + 2 * i + 1} 0 R >>`,
        streamOf(content),
      ]),
    ],
    trailer,
  );
}

const HELVETICA = '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>';

/** A content stream that draws lines of text from the top of the page; lines below the page are invisible.
 * @param {string} text @param {number} [size]  font size in points */
const drawText = (text, size = 11) =>
  `BT /F1 ${size} Tf 72 720 Td ${(14 * size) / 11} TL ${text
    .split('\n')
    .map((line) => `(${escapeText(line)}) Tj T*`)
    .join(' ')} ET`;

/** A file with a page for each text. @param {string[]} pages  texts with line breaks @param {number} [size]  font size in points */
export const pdfOf = (pages, size) =>
  encodeDocument(
    pages.map((page) => drawText(page, size)),
    HELVETICA,
  );

/** A file that requires a password. No password opens it. */
export const lockedPdf = () => {
  const key = `<${'5a'.repeat(32)}>`;
  const encrypt = `<< /Filter /Standard /V 1 /R 2 /O ${key} /U ${key} /P -4 >>`;
  return encodeDocument([drawText('secret')], HELVETICA, [encrypt], '/Encrypt 4 0 R /ID [<00><00>] ');
};

/** Two pages without text, each with a line, as a scanner writes them. */
export const scannedPdf = () => encodeDocument(['72 720 m 540 720 l S', '72 700 m 540 700 l S'], HELVETICA);

/** The text "日本" in an encoding whose table is not in the file. */
export const japanesePdf = () =>
  encodeDocument(
    ['BT /F1 11 Tf 72 720 Td <65E5672C> Tj ET'],
    '<< /Type /Font /Subtype /Type0 /BaseFont /KozMinPro-Regular /Encoding /UniJIS-UCS2-H /DescendantFonts [4 0 R] >>',
    [
      '<< /Type /Font /Subtype /CIDFontType0 /BaseFont /KozMinPro-Regular /CIDSystemInfo << /Registry (Adobe) /Ordering (Japan1) /Supplement 4 >> /FontDescriptor 5 0 R >>',
      '<< /Type /FontDescriptor /FontName /KozMinPro-Regular /Flags 4 /FontBBox [0 0 1000 1000] /ItalicAngle 0 /Ascent 800 /Descent -200 /CapHeight 700 /StemV 80 >>',
    ],
  );
