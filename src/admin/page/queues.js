// Which locks stand in a waiter's way, and which waiters a release would serve. The page computes
// this from the two lists, because the server names only one lock for each waiter.

const END = 2n ** 64n, parsed = new WeakMap(); // BigInt, because 64 bits do not fit a Number

function bounds(range) {
  if (!parsed.has(range)) parsed.set(range, [BigInt(range.first), range.last === null ? END : BigInt(range.last)]);
  return parsed.get(range);
}

function overlap(a, b) {
  const [aFirst, aLast] = bounds(a), [bFirst, bLast] = bounds(b);
  return aFirst <= bLast && bFirst <= aLast;
}

export const ownerKey = row => `${row.client.id}/${row.owner.svid}/${row.owner.handle}`;
export const fileKey = row => `${row.share}/${row.file}`;

const conflict = (a, b) => ownerKey(a) !== ownerKey(b) && (a.mode === "exclusive" || b.mode === "exclusive") && overlap(a.range, b.range);

export const byAge = waiters => [...waiters].sort((a, b) => b.waiting_seconds - a.waiting_seconds);

// Returns the locks that stand in the way of a waiter, out of the locks on its file.
export const blockersOf = (waiter, locks) => locks.filter(lock => conflict(waiter, lock));

// Returns the waiters of a file that are served if the locks that gone() selects are released,
// oldest first: those with neither a lock that stays nor an earlier waiter in their way.
export function grantedBy(gone, locks, waiters) {
  const staying = locks.filter(lock => !gone(lock)), granted = [];
  for (const waiter of byAge(waiters).filter(one => !one.granting && !gone(one))) {
    const before = blockersOf(waiter, locks).some(gone);
    if (before && !staying.some(lock => conflict(waiter, lock))) granted.push(waiter);
    staying.push(waiter);
  }
  return granted;
}
