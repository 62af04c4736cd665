// Colours for the words of a line: comment, string, directive, register, number, label, opcode
// or keyword.

const TOKENS = {
  ptx: /(?<c>\/\/.*|\/\*.*?\*\/)|(?<s>"[^"]*")|(?<d>\.[a-z]\w*(?:::\w+)?)|(?<r>%[\w.$]+)|(?<n>\b0[fFdDxX][0-9a-fA-F]+\b|\b\d+\b)|(?<l>^\s*[$\w]+:(?!:))|(?<o>(?<![\w.$%])[a-z]\w*(?:\.[\w:]+)+|(?<![\w.$%])(?:ret|exit|trap)\b)/g,
  source: /(?<c>\/\/.*|\/\*.*?\*\/)|(?<s>"(?:\\.|[^"\\])*")|(?<d>^\s*#\s*\w+|\b__\w+__\b)|(?<o>\b(?:auto|bool|break|char|class|const|constexpr|continue|def|do|double|else|float|for|half|if|import|inline|int|long|return|short|signed|size_t|static|struct|template|typename|unsigned|using|void|while)\b)|(?<r>\b(?:threadIdx|blockIdx|blockDim|gridDim)\b)|(?<n>\b\d[\w.]*)/g,
  sass: /(?<d>@!?U?P\w+)|(?<o>(?<![\w.])[A-Z][A-Z0-9]+(?:\.[\w.]+)?(?= |$))|(?<r>\bU?[RP](?:\d+|Z|T)\b)|(?<n>\b0x[0-9a-f]+\b)/g,
};
const MOST_COLOURED = 2000;  // characters of a line

function coloured(text, tokens) {
  if (text.length > MOST_COLOURED) return [text];
  const parts = [];
  let at = 0;
  for (const match of text.matchAll(tokens)) {
    const [kind] = Object.entries(match.groups).find(([, found]) => found !== undefined);
    parts.push(text.slice(at, match.index), node("i", { class: kind }, match[0]));
    at = match.index + match[0].length;
  }
  parts.push(text.slice(at));
  return parts.filter((part) => part !== "");
}
