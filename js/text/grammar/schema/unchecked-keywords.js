/** Names of keywords of a JSON Schema that are ignored, and of keywords that are refused. */

/** Keywords of other drafts that constrain values and are not supported. */
export const ASSERTIONS = new Set(['disallow', 'divisibleBy', 'extends', 'propertyDependencies']);

/** Keywords that don't constrain values, or that are read together with another keyword. */
const SILENT = new Set([
  ...['$schema', '$id', 'id', '$anchor', '$dynamicAnchor', '$recursiveAnchor', '$comment', '$vocabulary'],
  ...['$defs', 'definitions'],
  ...['title', 'description', 'default', 'examples', 'readOnly', 'writeOnly', 'deprecated'],
  ...['contentEncoding', 'contentMediaType', 'contentSchema'],
  ...['then', 'else', 'minContains', 'maxContains'],
  // Keywords of editors, forms and OpenAPI.
  ...[
    'example',
    'externalDocs',
    'nullable',
    'xml',
    'discriminator',
    '$default',
    'propertyOrder',
    'preferredOrder',
    'options',
  ],
  ...['enumNames', 'enumDescriptions', 'markdownEnumDescriptions', 'markdownDescription', 'deprecationMessage'],
  ...['errorMessage', 'patternErrorMessage', 'defaultSnippets', 'doNotSuggest', 'suggestSortText', 'scope', 'order'],
  ...['allowComments', 'allowTrailingCommas', 'fileMatch', 'tsType', 'tsEnumNames', 'javaType', 'meta:enum', 'version'],
]);

/**
 * Whether a keyword has no effect of its own on values. Keywords that begin with x- are extensions.
 * @param {string} name
 */
export const isSilent = (name) => SILENT.has(name) || name.startsWith('x-');
