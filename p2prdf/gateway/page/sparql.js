// The words of a SPARQL text, as far as colours, completion and the kind of a request need them.

const KEYWORDS = new Set((
  "base prefix version select distinct reduced construct describe ask from named where group by having order asc desc limit offset values "
  + "union optional minus graph service silent filter bind as undef not in exists a true false "
  + "insert delete data with using load clear drop create copy move add to into default all "
  + "register stream range step tumbling window on rule "
  + "count sum min max avg sample group_concat separator str lang langmatches datatype bound iri uri bnode rand abs ceil floor round concat "
  + "strlen ucase lcase encode_for_uri contains strstarts strends strbefore strafter year month day hours minutes seconds timezone tz now "
  + "uuid struuid md5 sha1 sha256 sha384 sha512 coalesce if strlang strdt sameterm isiri isuri isblank isliteral isnumeric regex substr replace "
  + "triple subject predicate object istriple langdir haslang haslangdir strlangdir"
).split(" "));
const UPDATES = new Set("insert delete with load clear drop create copy move add".split(" "));

// In this order: what comes first wins. A string that is not closed ends with its line, or with the text if it is long.
const TOKENS = new RegExp([
  "(?<comment>#[^\\n]*)",
  "(?<string>\"\"\"[^]*?(?:\"\"\"|$)|'''[^]*?(?:'''|$)|\"(?:[^\"\\\\\\n]|\\\\.)*\"?|'(?:[^'\\\\\\n]|\\\\.)*'?)",
  "(?<iri><[^<>\"{}|^`\\\\\\s]*>)",
  "(?<variable>[?$][\\p{L}\\p{N}_]+)",
  "(?<tag>@[A-Za-z]+(?:-[A-Za-z0-9]+)*)",
  "(?<prefixed>[\\p{L}](?:[\\p{L}\\p{N}_.-]*[\\p{L}\\p{N}_-])?:(?:[\\p{L}\\p{N}_:](?:[\\p{L}\\p{N}_.:%-]*[\\p{L}\\p{N}_:%-])?)?|_?:[\\p{L}\\p{N}_]*)",
  "(?<word>[\\p{L}_][\\p{L}\\p{N}_-]*)",
  "(?<number>[+-]?(?:\\d+(?:\\.\\d*)?|\\.\\d+)(?:[eE][+-]?\\d+)?)",
].join("|"), "gu");

/** Yield the words of a text: `{kind, text, start}`; a `word` that the language knows is a `keyword`. */
export function* tokens(text) {
  for (const match of text.matchAll(TOKENS)) {
    const [kind, found] = Object.entries(match.groups).find(([, value]) => value !== undefined);
    yield { kind: kind === "word" && KEYWORDS.has(found.toLowerCase()) ? "keyword" : kind, text: found, start: match.index };
  }
}

/** Return the prefixes that a text declares: IRIs by names with their colon. */
export function declared(text) {
  const found = new Map();
  let last = [];
  for (const token of tokens(text)) {
    if (token.kind === "comment") continue;
    last = [...last, token].slice(-3);
    const [keyword, name, iri] = last;
    if (iri?.kind === "iri" && name.text.endsWith(":") && /^prefix$/i.test(keyword.text)) found.set(name.text, iri.text.slice(1, -1));
  }
  return found;
}

/** Tell whether a text is an update: the first keyword after its declarations says so. */
export function isUpdate(text) {
  for (const { kind, text: word } of tokens(text)) {
    if (kind === "keyword" && !/^(?:base|prefix|version)$/i.test(word)) return UPDATES.has(word.toLowerCase());
  }
  return false;
}
