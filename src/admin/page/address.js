// The page's address holds what is looked at, so that it can be sent to a colleague and survives a
// reload: #tab=locks&search=build.

const read = () => new URLSearchParams(location.hash.slice(1));

export const get = name => read().get(name) ?? "";

export function set(name, value) {
  const now = read();
  if (value) now.set(name, value);
  else now.delete(name);
  const text = now.toString();
  if (`#${text}` !== location.hash) history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}
